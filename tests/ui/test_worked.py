"""Formulas as the page shows them."""

from ui.worked import formula_html, values_html, worked_html


def test_a_formula_is_read_with_dots_and_a_true_minus() -> None:
    assert formula_html("2*P*(e - 1) < U") == "<code>2·P·(e − 1) &lt; U</code>"


def test_the_values_follow_their_formula_and_say_what_they_stand_for() -> None:
    shown = worked_html(
        "P*e", (("P", 2_052_124_672), ("e", 0.5)), meaning=lambda s: 'of "w"' if s == "P" else ""
    )
    assert shown.startswith("<code>P·e</code><br>")
    assert '<abbr title="of &quot;w&quot;">P = 2,052,124,672</abbr>, e = 0.5' in shown


def test_a_formula_without_symbols_stands_alone() -> None:
    assert worked_html("c", ()) == "<code>c</code>"
    assert values_html(()) == ""
