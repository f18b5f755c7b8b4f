"""Text that comes in pieces: half characters, stop strings."""
import unittest

from serving import STORY, Server, joined, main


class StreamedText(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def both(self, **fields):
        """The choice of a whole answer, after the same as a stream was compared with it."""
        fields = dict(reasoning_effort="none", max_tokens=400, **fields)
        whole, = self.server.chat(STORY, **fields)["choices"]
        self.assertEqual(joined(self.server.stream(STORY, **fields)),
                         (whole["message"], whole["finish_reason"]))
        return whole

    def test_case_c52_characters_of_many_tokens_come_whole(self):
        for text in ("\U0001f469\U0001f3fd\u200d\U0001f680 \U0001f468\u200d\U0001f469\u200d\U0001f467",
                     "\U0001f1e9\U0001f1ea\U0001f1ef\U0001f1f5",  # flags
                     "안녕하세요", "क्षत्रिय नमस्ते", "\U00020bb7野家\U0002a6a5龘", "e\u0301"):
            with self.subTest(text):
                choice = self.both(regex=text, temperature=0, logprobs=True)
                self.assertEqual(choice["message"]["content"], text)
                self.assertEqual(choice["finish_reason"], "stop")
                # No token is a character: each is cut.
                tokens = [entry["bytes"] for entry in choice["logprobs"]["content"]]
                self.assertGreater(len(tokens), len(text))
        for classes in ("[가-힣]", "[क-ह]", "[\U0001f600-\U0001f64f]", "[\U00020000-\U0002a000]"):
            for seed in range(3):
                with self.subTest(classes, seed=seed):
                    choice = self.both(regex=classes + "{8}", temperature=2, top_p=1, seed=seed)
                    self.assertRegex(choice["message"]["content"], "^" + classes + "{8}$")

    def test_case_c54_stops_of_any_kind(self):
        fields = dict(temperature=0)
        text = self.both(**fields)["message"]["content"]
        self.assertGreater(len(text), 100)
        many = ["%d!" % i for i in range(63)]
        for stops in (text[20:84], [text[50]], many + [text[30:37]],
                      [text[40:43] + "\U0001fae0", text[45:50]]):
            with self.subTest(stops):
                whole = self.both(stop=stops, **fields)
                every = [stops] if isinstance(stops, str) else stops
                end = min(text.index(stop) + len(stop) for stop in every if stop in text)
                found = max((stop for stop in every if text[:end].endswith(stop)), key=len)
                self.assertEqual(whole["message"]["content"], text[:end - len(found)])
                self.assertEqual((whole["finish_reason"], whole["matched_stop"]), ("stop", found))

    def test_case_c54_stops_that_are_refused(self):
        for stops in ("", ["a", ""], ["%d!" % i for i in range(100)], ["x" * 2000], [1], {}):
            with self.subTest(stops):
                status, _, body = self.server.post({"messages": STORY, "stop": stops})
                self.assertEqual(status, 400)
                self.assertRegex(body["error"]["param"], "^stop")


if __name__ == "__main__":
    main()
