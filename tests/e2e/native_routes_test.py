"""SGLang's own routes: /generate, tokens, names of requests, what routers and trainers ask."""
import json
import threading
import time
import unittest

from serving import STORY, Server, Stream, main

TEXT = "The quick brown fox"
GREEDY = {"temperature": 0, "max_new_tokens": 8}
ENDLESS = {"temperature": 0, "max_new_tokens": 3000, "ignore_eos": True}


class Native(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--max-running", 4))

    def generate(self, **fields):
        return self.server.ask("/generate", {"text": TEXT, "sampling_params": GREEDY, **fields})

    def ids(self, text):
        return self.server.ask("/tokenize", {"text": text})["tokens"]

    def test_one_prompt_is_an_object_and_lengths_agree(self):
        body = self.generate(return_logprob=True, top_logprobs_num=2)
        meta = body["meta_info"]
        self.assertEqual(len(body["output_ids"]), meta["completion_tokens"])
        self.assertEqual([entry[1] for entry in meta["output_token_logprobs"]], body["output_ids"])
        self.assertTrue(all(len(best) == 2 for best in meta["output_top_logprobs"]))
        self.assertEqual(meta["prompt_tokens"], len(self.ids(TEXT)))
        self.assertIn(meta["finish_reason"]["type"], ("stop", "length"))
        self.assertEqual(self.generate(text=None, input_ids=self.ids(TEXT))["output_ids"],
                         body["output_ids"])

    def test_several_are_a_list_and_their_names_children(self):
        alone = self.generate()["text"]
        batch = self.generate(text=[TEXT, "Once"], rid="batch")
        self.assertEqual([item["meta_info"]["id"] for item in batch], ["batch_0", "batch_1"])
        self.assertEqual(batch[0]["text"], alone)
        self.assertEqual(len(self.generate(text=[TEXT])), 1)
        several = self.generate(sampling_params={**GREEDY, "n": 3})
        self.assertEqual([item["text"] for item in several], [alone] * 3)

    def test_a_stream_repeats_all_that_there_is(self):
        whole = self.generate(return_logprob=True)
        events = self.server.stream_of("/generate", {"text": TEXT, "sampling_params": GREEDY,
                                                     "return_logprob": True})
        for before, after in zip(events, events[1:]):
            self.assertTrue(after["text"].startswith(before["text"]))
            self.assertEqual(after["output_ids"][:len(before["output_ids"])], before["output_ids"])
        self.assertIsNone(events[0]["meta_info"]["finish_reason"])
        self.assertEqual(events[-1]["output_ids"], whole["output_ids"])
        self.assertEqual(events[-1]["text"], whole["text"])
        self.assertEqual(events[-1]["meta_info"]["output_token_logprobs"],
                         whole["meta_info"]["output_token_logprobs"])

    def test_log_probs_of_the_prompt_from_a_position(self):
        ids = self.ids(TEXT)
        for start in (0, 2):
            meta = self.generate(return_logprob=True, logprob_start_len=start,
                                 return_text_in_logprobs=True)["meta_info"]
            entries = meta["input_token_logprobs"]
            self.assertEqual([entry[1] for entry in entries], ids[start:])
            self.assertEqual([entry[0] is None for entry in entries],
                             [start == 0] + [False] * (len(entries) - 1))
        self.assertNotIn("input_token_logprobs", self.generate(return_logprob=True)["meta_info"])

    def test_what_is_refused_names_the_field(self):
        for fields, param in (({"text": None}, "text"), ({"input_ids": [1]}, "input_ids"),
                              ({"sampling_params": [GREEDY]}, "sampling_params"),
                              ({"sampling_params": {"top_p": 2}}, "sampling_params.top_p"),
                              ({"sampling_params": {"max_new_tokens": 0}},
                               "sampling_params.max_new_tokens"),
                              ({"custom_logit_processor": "x"}, "custom_logit_processor"),
                              ({"image_data": "x"}, "image_data"), ({"lora_path": "x"}, "lora_path"),
                              ({"logprob_start_len": 999, "return_logprob": True},
                               "logprob_start_len")):
            with self.subTest(fields):
                status, _, body = self.server.post({"text": TEXT, **fields}, "/generate")
                self.assertEqual((status, body["error"]["param"]), (400, param), body)

    def test_tokens_round_trip_in_every_spelling(self):
        for name in ("prompt", "text", "content"):
            body = self.server.ask("/v1/tokenize", {name: TEXT, "return_token_strs": True})
            self.assertEqual("".join(body["token_strs"]), TEXT)
            self.assertEqual(body["count"], len(body["tokens"]))
            text = self.server.ask("/v1/detokenize", {"tokens": body["tokens"]})
            self.assertEqual((text["text"], text["prompt"], text["content"]), (TEXT,) * 3)
        lists = self.server.ask("/tokenize", {"prompt": [TEXT, "Once"]})
        self.assertEqual(lists["tokens"][0], self.ids(TEXT))
        self.assertEqual(self.server.ask("/detokenize", {"tokens": lists["tokens"]})["text"],
                         [TEXT, "Once"])
        chat = self.server.ask("/tokenize", {"messages": STORY})
        used = self.server.chat(STORY, max_tokens=1)["usage"]["prompt_tokens"]
        self.assertEqual(chat["count"], used)
        for path, fields in (("/tokenize", {}), ("/tokenize", {"prompt": "a", "text": "b"}),
                             ("/detokenize", {}), ("/detokenize", {"tokens": [-1]}),
                             ("/detokenize", {"tokens": "a"})):
            self.assertEqual(self.server.post(fields, path)[0], 400, (path, fields))

    def test_infos_and_pings_answer_json(self):
        for path in ("/ping", "/health", "/health_generate", "/model_info", "/get_model_info",
                     "/server_info", "/get_server_info"):
            status, _, body = self.server.request("GET", path)
            self.assertEqual(status, 200, path)
            self.assertIsInstance(body, dict)
        info = self.server.request("GET", "/server_info")[2]
        self.assertEqual(info["logprobs_mode"], "raw")
        for path in ("/v1/embeddings", "/v1/rerank", "/v1/score", "/v1/classify"):
            self.assertEqual(self.server.post({"input": "a"}, path)[0], 400)

    def wait_idle(self):
        while self.server.request("GET", "/flush_cache?timeout=1")[0] != 200:
            pass

    def aborted(self, abort, **fields):
        """What an endless request answers after `abort` was sent."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            self.server.ask("/generate", {"text": TEXT, "sampling_params": ENDLESS, **fields})))
        thread.start()
        while not answers:
            self.server.ask("/abort_request", abort)
            time.sleep(0.02)
        thread.join()
        return answers[0]

    def test_aborting_by_name_and_by_prefix_returns_what_there_is(self):
        self.assertEqual(self.server.ask("/abort_request", {"rid": "nobody"})["aborted"], 0)
        self.assertEqual(self.server.ask("/abort_request", {})["aborted"], 0)
        for abort in ({"rid": "long"}, {"rid": "lo"}, {"abort_all": True}):
            body = self.aborted(abort, rid="long")
            self.assertEqual(body["meta_info"]["finish_reason"]["type"], "abort")
            self.assertEqual(len(body["output_ids"]), body["meta_info"]["completion_tokens"])
            self.assertLess(len(body["output_ids"]), 3000)
        self.wait_idle()

    def test_a_repeat_with_an_idempotency_key_gets_the_same_bytes(self):
        def raw(fields, key):
            connection = self.server.connect()
            connection.request("POST", "/generate", json.dumps(fields),
                               {"Content-Type": "application/json", "Idempotency-Key": key})
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            return answer.status, answer.headers["X-Request-Id"], body
        fields = {"text": TEXT, "sampling_params": {"temperature": 1, "max_new_tokens": 8}}
        first = raw(fields, "one")
        self.assertEqual(first[0], 200)
        self.assertEqual(raw(fields, "one"), first)
        self.assertNotEqual(raw(fields, "two"), first)
        self.assertEqual(raw({**fields, "rid": "x"}, "one")[0], 400)
        # One asks while the other is being answered, and leaves: the work goes on.
        left = self.server.connect()
        left.request("POST", "/generate", json.dumps({**fields, "rid": "y"}),
                     {"Content-Type": "application/json", "Idempotency-Key": "three"})
        left.close()
        self.assertEqual(raw({**fields, "rid": "y"}, "three")[0], 200)

    def test_flushing_waits_for_the_running_or_says_that_they_run(self):
        stream = Stream(self.server, {"text": TEXT, "sampling_params": ENDLESS, "stream": True},
                        "/generate")
        next(iter(stream))
        self.assertEqual(self.server.request("POST", "/flush_cache")[0], 400)
        stream.leave()
        self.assertEqual(self.server.request("POST", "/flush_cache?timeout=30")[0], 200)

    def test_a_time_limit_ends_the_answer_with_what_there_is(self):
        body = self.server.ask("/generate", {"text": TEXT, "sampling_params": ENDLESS,
                                             "timeout": 0.5})
        self.assertEqual(body["meta_info"]["finish_reason"]["type"], "abort")
        self.assertGreater(len(body["output_ids"]), 0)


if __name__ == "__main__":
    main()
