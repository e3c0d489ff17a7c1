"""What the Method page shows, worked out without Streamlit: formulas, the score, its evidence, data, gaps."""
