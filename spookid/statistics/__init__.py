"""What the data say about noise and parameters: the marginal likelihood and what follows from it."""
