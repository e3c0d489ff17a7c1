"""Figures: pure functions of a plan. No Streamlit here."""
