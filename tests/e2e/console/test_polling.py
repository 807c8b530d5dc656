"""The page asks for the counters: one call at a time, and what comes late changes nothing."""

from __future__ import annotations

import json
from typing import Any

from chromium import Chromium
from console_page import ConsolePage

ROWS = "document.querySelectorAll('.charts .chart:nth-child(1) tbody tr').length"
WATCHED = """
window.calls = {open: 0, most: 0, begun: 0};
const ask = window.fetch;
window.fetch = async (url, options) => {
  if (!String(url).endsWith("/status")) return ask(url, options);
  const slow = window.calls.begun++ % 2 ? 0 : 300;
  options.signal?.addEventListener("abort", () => window.calls.ended = true);
  const open = () => { window.calls.open += 1; window.calls.most = Math.max(window.calls.most, window.calls.open); };
  open();
  let there = true;
  const close = () => { if (there) window.calls.open -= 1; there = false; };
  options.signal?.addEventListener("abort", close);
  try {
    const answer = await ask(url, options);
    await new Promise((resolve) => setTimeout(resolve, slow));
    return answer;
  } finally {
    close();
  }
};
"""


def test_one_call_is_under_way_at_a_time(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http) as page:
        page.wait_until_known()
        page.open_table(".charts .chart:nth-child(1)")
        browser.wait_for(f"{ROWS} >= 2")
        browser.evaluate(f"(() => {{ {WATCHED} }})()")
        least = browser.evaluate(f"""(async () => {{
          const {{refresh}} = await import("./store.js");
          let least = {ROWS};
          for (let turn = 0; turn < 40; turn += 1) {{
            if (turn < 6) refresh();
            await new Promise((resolve) => setTimeout(resolve, turn < 6 ? 5 : 25));
            least = Math.min(least, {ROWS});
          }}
          return least;
        }})()""")
        assert least >= 2, "the history began anew"
        assert browser.evaluate("window.calls.begun") >= 6
        assert browser.evaluate("window.calls.most") == 1


def samples(browser: Chromium, statuses: list[tuple[str, float]]) -> list[float]:
    """Times of the samples that a history has after some answers, each of a start and a time."""
    given = [{"start": start, "monotonic": time, "counters": [], "bounds_ns": []} for start, time in statuses]
    return list(
        browser.evaluate(f"""(async () => {{
          const {{History}} = await import("./counters.js");
          const history = new History();
          {json.dumps(given)}.forEach((status) => history.add(status));
          return history.samples.map((sample) => sample.monotonic);
        }})()""")
    )


def test_a_late_answer_is_dropped_and_a_new_start_begins_anew(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http):
        assert samples(browser, [("a", 1), ("a", 3), ("a", 2), ("a", 3), ("a", 4)]) == [1, 3, 4]
        assert samples(browser, [("a", 1), ("a", 3), ("b", 2), ("b", 2.5)]) == [2, 2.5]  # after the machine was, too
        assert samples(browser, [("a", 1), ("a", 3), ("b", 4)]) == [4]
