"""The paper's two tables, with the spread over random orders: `python -m experiments.paper_tables`."""
