"""Prefix cache over HTTP: what is reused, that it changes no answer, what usage and metrics say.

Names begin with the case they show. Everything runs with --precision exact, where equal means equal bits:
texts and log-probs alike. A reference is computed in a namespace of its own, so from its start."""
import json
import random
import unittest

from cache_checks import (Exact, cached, check_leaks, computed, details, grid_and_chunk, metrics, reference,
                          wait_idle)
from serving import SUM, Server, main

GREEDY = dict(temperature=0, logprobs=True)
WORDS = ("sun moon tree river stone bird fish house road hill cloud rain snow wind fire lamp book chair table "
         "door key ring coin boat bread milk salt apple pear plum").split()


def text(seed, words):
    random_words = random.Random(seed)
    return " ".join(random_words.choice(WORDS) for _ in range(words))


def user(content):
    return {"role": "user", "content": content}


def assistant(answer):
    """The message as a client sends it back: with its reasoning."""
    return dict(answer["choices"][0]["message"])


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--precision", "exact"))
        cls.exact = Exact(cls.server)
        cls.grid, cls.chunk = grid_and_chunk(cls.server)

    def setUp(self):
        self.server.request("POST", "/flush_cache")

    def assertSameAnswer(self, answer, other):
        self.assertEqual(answer["choices"], other["choices"])

    def test_c01_warm_rerun(self):
        """Prompt of 3B+17 tokens, 64 out, twice; then with other tails of 20 tokens. Full size. A state is kept 32
        tokens before the end of a prompt, where nobody says what of it is history."""
        prompt = self.exact.prompt(3 * self.grid + 17)

        def with_tail(word):
            changed = json.loads(json.dumps(prompt))
            changed[-1]["content"] = changed[-1]["content"][:-2 * 20] + word * 20
            return changed
        fields = dict(GREEDY, max_tokens=64, reasoning_effort="none")
        cold = self.server.chat(prompt, **fields)
        self.assertEqual(cold["usage"]["prompt_tokens"], 3 * self.grid + 17)
        self.assertEqual(cached(cold), 0)
        self.assertEqual(details(cold)["cache_miss"], "new")
        self.assertSameAnswer(cold, reference(self.server, prompt, **fields))
        warm = self.server.chat(prompt, **fields)
        self.assertGreater(cached(warm), 0)
        self.assertSameAnswer(warm, cold)
        first, second = with_tail(" b"), with_tail(" c")
        departs = self.server.chat(first, **fields)
        self.assertEqual(cached(departs), (3 * self.grid + 17 - 32) // self.grid * self.grid)
        self.assertEqual(details(departs)["cache_miss"], "differs")
        self.assertSameAnswer(departs, reference(self.server, first, **fields))
        branches = self.server.chat(second, **fields)
        self.assertEqual(cached(branches), (3 * self.grid + 17 - 20) // self.grid * self.grid)
        self.assertEqual(details(branches)["cache_miss"], "differs")
        self.assertEqual(details(branches)["differs_at"], 3 * self.grid + 17 - 20)
        self.assertSameAnswer(branches, reference(self.server, second, **fields))

    def test_c02_exact_boundary(self):
        """L in {B-1, B, B+1, 2B, P, P+1}, then L+1 and L+2. The markup of a chat alone is longer than B, so
        lengths below it are moved up by whole grid steps; tests/integration has them as they are."""
        markup = -(-(self.exact.markup_tokens + 1) // self.grid) * self.grid
        lengths = [markup + self.grid - 1, markup + self.grid, markup + self.grid + 1, markup + 2 * self.grid,
                   self.chunk, self.chunk + 1]
        fields = dict(GREEDY, max_tokens=4, reasoning_effort="none")
        for length in lengths:
            salt = "c02 %d" % length
            for more in range(3):
                with self.subTest(length=length, more=more):
                    prompt = self.exact.prompt(length + more)
                    answer = self.server.chat(prompt, cache_salt=salt, **fields)
                    self.assertEqual(answer["usage"]["prompt_tokens"], length + more)
                    if more:
                        self.assertGreaterEqual(cached(answer), (length - 1) // self.grid * self.grid)
                    self.assertSameAnswer(answer, reference(self.server, prompt, **fields))

    def test_c03_edit_the_past(self):
        """Scale: 12 turns of 30 words instead of 500 tokens; turn 9 changed, then the last answer dropped."""
        fields = dict(GREEDY, max_tokens=8)
        messages, prompts = [], []
        for turn in range(12):
            messages.append(user("%d. %s" % (turn + 1, text(turn, 30))))
            prompts.append(list(messages))
            answer = self.server.chat(messages, **fields)
            if turn:
                self.assertGreater(cached(answer), 0)
            messages.append(assistant(answer))
        edited = prompts[11][:]
        edited[2 * 8] = user("9. " + text("other", 30))
        self.assertEqual(prompts[8][-1]["content"][:2], "9.")
        tokens_before_turn_9 = reference(self.server, prompts[7], **fields)["usage"]["prompt_tokens"]
        answer = self.server.chat(edited, **fields)
        self.assertIn(details(answer)["cache_miss"], ("differs", "branch"))
        self.assertGreaterEqual(cached(answer), tokens_before_turn_9 - 2 * self.grid)
        self.assertSameAnswer(answer, reference(self.server, edited, **fields))
        again = self.server.chat(prompts[11], **fields)  # the last answer dropped: asked once more
        self.assertLessEqual(computed(again), 2 * self.grid)
        self.assertSameAnswer(again, reference(self.server, prompts[11], **fields))

    def test_c07_trivial_prompts(self):
        """1, 2, 3, 63, 64 and 65 words of one token, two turns each. Full size. That the second turn has the
        first is shown by equality with a run that computed all of it: the bundled model remembers no code word."""
        fields = dict(GREEDY, max_tokens=6)
        for words in (1, 2, 3, 63, 64, 65):
            with self.subTest(words=words):
                messages = [user("a" + " a" * (words - 1))]
                first = self.server.chat(messages, **fields)
                self.assertSameAnswer(first, reference(self.server, messages, **fields))
                messages += [assistant(first), user("b")]
                second = self.server.chat(messages, **fields)
                self.assertGreaterEqual(cached(second),
                                        first["usage"]["prompt_tokens"] // self.grid * self.grid - self.grid)
                self.assertSameAnswer(second, reference(self.server, messages, **fields))

    def test_usage_is_the_same_for_streams_and_counts_choices_once(self):
        fields = dict(temperature=0, max_tokens=4)
        self.server.chat(SUM, **fields)
        for n in (4, 1):
            whole = self.server.chat(SUM, n=n, **fields)
            chunks = self.server.stream(SUM, n=n, stream_options={"include_usage": True}, **fields)
            self.assertEqual(chunks[-1]["usage"]["prompt_tokens_details"], details(whole))
            self.assertGreater(cached(whole), 0)
            self.assertLess(cached(whole), whole["usage"]["prompt_tokens"])

    def test_metrics_agree_with_usage(self):
        wait_idle(self.server)
        before = metrics(self.server)
        answers = [self.server.chat(SUM, temperature=0, max_tokens=3) for _ in range(3)]
        after = wait_idle(self.server)

        def grown(series):
            return after[series] - before[series]
        self.assertEqual(grown('tandem_cache_hit_tokens_total{tier="device"}'), sum(map(cached, answers)))
        self.assertEqual(grown("tandem_prefill_tokens_total"), sum(map(computed, answers)))
        self.assertEqual(grown('tandem_requests_total{finish="length"}'), 3)
        self.assertEqual(grown('sglang:generation_tokens_total{model_name="demo"}'), 9)
        self.assertEqual(after["tandem_cache_grid_tokens"], self.grid)
        self.assertEqual(after["tandem_prefill_chunk_tokens"], self.chunk)

    def test_flushing_gives_everything_back(self):
        self.server.chat(SUM, temperature=0, max_tokens=3)
        freed = check_leaks(self, self.server)
        self.assertGreater(freed["freed_states"], 0)
        self.assertGreater(freed["freed_pages"], 0)


if __name__ == "__main__":
    main()
