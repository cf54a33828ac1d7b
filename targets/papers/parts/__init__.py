"""How a paper is declared: its entries, its printed numbers, and what reads them."""
