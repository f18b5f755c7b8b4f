"""Images, which no model here sees yet: a clear 400 for each, hostile or not, and nobody else notices."""
import base64
import os
import struct
import threading
import time
import unittest
import zlib

from serving import STORY, Server, joined, main


def png(width, height, data=b"", depth=8):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def part(content, mime="image/png"):
    return {"type": "image_url",
            "image_url": {"url": "data:%s;base64,%s" % (mime, base64.b64encode(content).decode())}}


SMALL = png(1, 1, b"\0\1\2\3")
HOSTILE = {
    "one by many": [part(png(1, 30000))],
    "many by one": [part(png(30000, 1))],
    "no bytes": [part(b"")],
    "cut off": [part(SMALL[:20])],
    "noise called JPEG": [part(os.urandom(6 << 20), "image/jpeg")],
    "a header of 50000 by 50000": [part(png(50000, 50000))],
    "16 bit": [part(png(4, 4, bytes(4 * 25), depth=16))],
    "forty": [part(SMALL)] * 40,
    "a link": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x.png"}}],
    "a file": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}],
    "a plain one": [part(SMALL)],
}


class Images(unittest.TestCase):
    def test_c67_every_image_is_refused_fast_and_text_goes_on(self):
        with Server() as server:
            fields = dict(temperature=0, max_tokens=200)
            alone = joined(server.stream(STORY, **fields))
            beside = []
            stream = threading.Thread(target=lambda: beside.append(joined(server.stream(STORY, **fields))))
            stream.start()
            for name, images in HOSTILE.items():
                with self.subTest(name=name):
                    content = [{"type": "text", "text": "What is this?"}, *images]
                    begin = time.monotonic()
                    status, _, body = server.post({"messages": [{"role": "user", "content": content}]})
                    self.assertLess(time.monotonic() - begin, 5)
                    self.assertEqual(status, 400, body)
                    self.assertEqual(body["error"]["param"], "messages[0].content[1].type")
                    self.assertIn("image", body["error"]["message"])
                    self.assertLess(len(body["error"]["message"]), 300)
            stream.join()
            self.assertEqual(beside, [alone])


if __name__ == "__main__":
    main()
