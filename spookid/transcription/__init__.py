"""The narrow waist: factors over a horizon become variables, tangent spaces, bounds and rows. Knows no mechanics."""
