"""One-step functions evaluated along a horizon: CasADi's machine, compiled C, and the memory and threads for both."""
