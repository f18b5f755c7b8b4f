"""POST /v1/completions against the bundled model."""
import unittest

from serving import Server, main

PATH = "/v1/completions"
PROMPT = "The quick brown fox"
FIXED = {"temperature": 0, "max_tokens": 8}


class Completions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def ask(self, **fields):
        return self.server.ask(PATH, {"prompt": PROMPT, **FIXED, **fields})

    def ids(self, text):
        return self.server.ask("/tokenize", {"prompt": text})["tokens"]

    def test_text_and_ids_are_the_same_prompt(self):
        text = self.ask()
        self.assertEqual(text["object"], "text_completion")
        self.assertEqual(text["choices"][0]["index"], 0)
        self.assertTrue(text["id"].startswith("cmpl-"))
        ids = self.ask(prompt=self.ids(PROMPT))
        self.assertEqual(ids["choices"][0]["text"], text["choices"][0]["text"])
        self.assertEqual(text["usage"]["prompt_tokens"], len(self.ids(PROMPT)))

    def test_a_list_of_prompts_has_n_choices_each_in_order(self):
        alone = [self.ask(prompt=p)["choices"][0]["text"] for p in (PROMPT, "Once")]
        both = self.ask(prompt=[PROMPT, "Once"], n=2)
        self.assertEqual([c["index"] for c in both["choices"]], [0, 1, 2, 3])
        self.assertEqual([c["text"] for c in both["choices"]],
                         [alone[0], alone[0], alone[1], alone[1]])
        self.assertEqual(both["usage"]["prompt_tokens"],
                         len(self.ids(PROMPT)) + len(self.ids("Once")))
        ids = self.ask(prompt=[self.ids(PROMPT), self.ids("Once")])
        self.assertEqual([c["text"] for c in ids["choices"]], alone)

    def test_sixteen_tokens_unless_told_otherwise(self):
        body = self.server.ask(PATH, {"prompt": PROMPT, "temperature": 0, "ignore_eos": True})
        self.assertEqual(body["usage"]["completion_tokens"], 16)
        self.assertEqual(body["choices"][0]["finish_reason"], "length")

    def test_a_stream_adds_up_to_the_whole(self):
        whole = self.ask(echo=True, logprobs=2, n=2)
        chunks = self.server.stream_of(PATH, {"prompt": PROMPT, **FIXED, "echo": True,
                                              "logprobs": 2, "n": 2,
                                              "stream_options": {"include_usage": True}})
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"],
                         whole["usage"]["completion_tokens"])
        for choice in whole["choices"]:
            parts = [c["choices"][0] for c in chunks[:-1]
                     if c["choices"][0]["index"] == choice["index"]]
            self.assertEqual("".join(p["text"] for p in parts), choice["text"])
            self.assertTrue(parts[0]["text"].startswith(PROMPT))
            self.assertEqual([p["finish_reason"] for p in parts if p["finish_reason"]],
                             [choice["finish_reason"]])
            for key in ("tokens", "token_logprobs", "text_offset"):
                joined = [x for p in parts for x in p["logprobs"][key]]
                self.assertEqual(joined, choice["logprobs"][key])

    def test_scoring_a_prompt(self):
        body = self.ask(echo=True, logprobs=1, max_tokens=0)
        choice = body["choices"][0]
        self.assertEqual(choice["text"], PROMPT)
        self.assertEqual(body["usage"]["completion_tokens"], 0)
        logprobs = choice["logprobs"]
        self.assertEqual("".join(logprobs["tokens"]), PROMPT)
        self.assertIsNone(logprobs["token_logprobs"][0])
        self.assertIsNone(logprobs["top_logprobs"][0])
        self.assertTrue(all(value <= 0 for value in logprobs["token_logprobs"][1:]))
        self.assertTrue(all(len(best) == 1 for best in logprobs["top_logprobs"][1:]))
        self.assertEqual(logprobs["text_offset"],
                         [len("".join(logprobs["tokens"][:i]))
                          for i in range(len(logprobs["tokens"]))])

    def test_stop_strings_are_cut_or_kept(self):
        text = self.ask(max_tokens=24, ignore_eos=True)["choices"][0]["text"]
        stop = text[5:8]
        cut = self.ask(max_tokens=24, ignore_eos=True, stop=stop)["choices"][0]
        self.assertEqual(cut["text"], text[:text.index(stop)])
        self.assertEqual((cut["finish_reason"], cut["matched_stop"]), ("stop", stop))
        kept = self.ask(max_tokens=24, ignore_eos=True, stop=stop,
                        include_stop_str_in_output=True)["choices"][0]
        self.assertEqual(kept["text"], text[:text.index(stop)] + stop)

    def test_stop_token_ids_end_the_text_before_them(self):
        body = self.ask(return_token_ids=True, ignore_eos=True)
        ids = body["choices"][0]["token_ids"]
        self.assertEqual(len(ids), 8)
        self.assertEqual(body["choices"][0]["prompt_token_ids"], self.ids(PROMPT))
        stop = next(i for i in ids if ids.index(i) > 0)
        ended = self.ask(return_token_ids=True, ignore_eos=True, stop_token_ids=[stop])
        choice = ended["choices"][0]
        self.assertEqual(choice["token_ids"], ids[:ids.index(stop) + 1])
        self.assertEqual((choice["finish_reason"], choice["matched_stop"]), ("stop", stop))
        shown = self.server.ask("/detokenize", {"tokens": ids[:ids.index(stop)]})["text"]
        self.assertEqual(choice["text"], shown)

    def test_min_tokens_and_logit_bias_are_honoured(self):
        free = self.ask(return_token_ids=True)["choices"][0]["token_ids"][0]
        banned = self.ask(return_token_ids=True, logit_bias={str(free): -100})
        self.assertNotIn(free, banned["choices"][0]["token_ids"])
        forced = self.ask(return_token_ids=True, logit_bias={"65": 100}, max_tokens=3)
        self.assertEqual(forced["choices"][0]["token_ids"], [65, 65, 65])

    def test_the_same_seed_is_the_same_text_whole_and_streamed(self):
        def text(seed):
            return self.ask(temperature=1, seed=seed)["choices"][0]["text"]
        self.assertEqual(text(0), text(0))
        self.assertGreaterEqual(len({text(seed) for seed in range(8)}), 6)
        chunks = self.server.stream_of(PATH, {"prompt": PROMPT, "max_tokens": 8, "temperature": 1,
                                              "seed": 0})
        self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), text(0))

    def test_an_answer_in_a_format(self):
        body = self.ask(regex="(yes|no)!", temperature=1, seed=3)
        self.assertIn(body["choices"][0]["text"], ("yes!", "no!"))

    def test_what_is_refused_names_the_field(self):
        vocab = self.server.request("GET", "/model_info")[2]["vocab_size"]
        for fields, param in (({"prompt": None}, "prompt"), ({"prompt": []}, "prompt"),
                              ({"prompt": ""}, "prompt"), ({"prompt": ["a", ""]}, "prompt[1]"),
                              ({"prompt": [1, "a"]}, "prompt[1]"), ({"prompt": [vocab]}, "prompt"),
                              ({"prompt": {}}, "prompt"), ({"max_tokens": 0}, "max_tokens"),
                              ({"suffix": "x"}, "suffix"), ({"logprobs": 21}, "logprobs"),
                              ({"best_of": 3}, "best_of"), ({"messages": [1]}, "messages"),
                              ({"stop_token_ids": [vocab]}, "stop_token_ids"),
                              ({"min_tokens": 9}, "min_tokens"),
                              ({"stream_options": {}}, "stream_options")):
            with self.subTest(fields):
                status, _, body = self.server.post({"prompt": PROMPT, **FIXED, **fields}, PATH)
                self.assertEqual((status, body["error"]["param"]), (400, param), body)


if __name__ == "__main__":
    main()
