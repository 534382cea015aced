"""Time steppers: a model and a step become one-step factors, and a forward step."""
