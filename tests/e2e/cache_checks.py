"""What tests of the prefix cache look at: metrics, usage, memory of the process, prompts of an exact length."""
import itertools
import re
import time

from serving import TANDEM  # noqa: F401  (the argument check of serving comes first)

SALTS = itertools.count()


def metrics(server):
    """Every series of /metrics with its value."""
    connection = server.connect()
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise AssertionError("%d %s" % (answer.status, text))
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return {series: float(value) for series, value in (line.rsplit(" ", 1) for line in lines)}
    finally:
        connection.close()


def grid_and_chunk(server):
    """B and P of the cases: what cached prefixes are multiples of, prompt tokens of one step."""
    model = server.request("GET", "/v1/models")[2]["data"][0]
    return model["cache_grid_tokens"], model["prefill_chunk_tokens"]


def details(answer):
    """How the prompt met the cache."""
    return answer["usage"]["prompt_tokens_details"]


def cached(answer):
    return details(answer)["cached_tokens"]


def computed(answer):
    return answer["usage"]["prompt_tokens"] - cached(answer)


def reference(server, messages, **fields):
    """The same request where nothing is cached: in a namespace of its own."""
    answer = server.chat(messages, cache_salt="reference %d" % next(SALTS), **fields)
    if cached(answer):
        raise AssertionError("a new namespace had something cached: %s" % answer["usage"])
    return answer


def wait_idle(server):
    """A client may have its answer before the step's figures are published."""
    while True:
        now = metrics(server)
        if now["tandem_requests_running"] == now["tandem_requests_queued"] == 0:
            return now
        time.sleep(0.01)


def rss_bytes(server):
    with open("/proc/%d/status" % server.process.pid) as status:
        return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1))


def check_leaks(test, server):
    """All requests have ended: once the cache is flushed nobody holds anything."""
    wait_idle(server)
    status, _, freed = server.request("POST", "/flush_cache")
    test.assertEqual(status, 200)
    left = {series: value for series, value in metrics(server).items()
            if series.startswith(("tandem_state_slots", "tandem_cache_entries",
                                  "tandem_cache_locked_entries", "tandem_tombstones"))
            or series in ('tandem_mem_arena_bytes{kind="state"}', 'tandem_mem_arena_bytes{kind="kv"}',
                          'tandem_mem_arena_bytes{kind="pinned"}')}
    test.assertGreater(len(left), 10)
    test.assertEqual({series: value for series, value in left.items() if value}, {})
    return freed


class Exact:
    """Prompts of an exact number of tokens: an assistant's message, to be continued, in a word of one token.

    Longer prompts begin with the shorter ones: no marker follows the last word."""

    FIELDS = dict(reasoning_effort="none", temperature=0)

    def __init__(self, server):
        self.server = server
        one, nine = (server.chat(self.words(n), max_tokens=1, cache_salt="sizes", **self.FIELDS)
                     ["usage"]["prompt_tokens"] for n in (1, 9))
        if nine != one + 8:
            raise AssertionError("the word has more than one token")
        self.markup_tokens = one - 1

    @staticmethod
    def words(count, tail=""):
        return [{"role": "user", "content": "Go on."},
                {"role": "assistant", "content": "a" + " a" * (count - 1) + tail, "partial": True}]

    def prompt(self, tokens):
        return self.words(tokens - self.markup_tokens)
