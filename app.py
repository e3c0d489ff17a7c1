"""The page's entry: settings, language, navigation; everything else is in `ui`."""

import streamlit as st

from ui.addresses import names_page
from ui.language import current_words
from ui.mark import icon, logo
from ui.pages import buy, claims, compare, cost, diagnose, measure, method, plan, recommend
from ui.state import enter_page
from ui.streamlit_words import worded_rules
from ui.tokens import scheme_script, style_sheet

words = current_words()
st.set_page_config(words("app.title"), icon(), layout="wide", initial_sidebar_state=320)
st.html(f"<style>{style_sheet()}{worded_rules(words)}</style>")
with st.container(key="scheme"):
    st.html(scheme_script(), unsafe_allow_javascript=True)
st.logo(logo(), size="medium")
by_name = names_page(st.context.url, "plan")
pages = [
    st.Page(
        plan.draw, title=words("page.plan"), url_path="plan", visibility="visible" if by_name else "hidden"
    ),
    st.Page(plan.draw, title=words("page.plan"), default=True, visibility="hidden" if by_name else "visible"),
    st.Page(cost.draw, title=words("page.cost"), url_path="cost"),
    st.Page(recommend.draw, title=words("page.recommend"), url_path="recommend"),
    st.Page(buy.draw, title=words("page.buy"), url_path="buy"),
    st.Page(measure.draw, title=words("page.measure"), url_path="measure"),
    st.Page(compare.draw, title=words("page.compare"), url_path="compare"),
    st.Page(diagnose.draw, title=words("page.diagnose"), url_path="diagnose"),
    st.Page(claims.draw, title=words("page.claims"), url_path="claims"),
    st.Page(method.draw, title=words("page.method"), url_path="method"),
]
page = st.navigation(pages, position="top")
enter_page(page.url_path)
page.run()
