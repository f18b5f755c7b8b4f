"""Damaged checkpoints and bad arguments, through the real binary.

Each must end with exit code 2 and exactly one line on stderr that names the thing and the expectation,
and print nothing on stdout.   usage: bad_input_test.py TANDEM SOURCE_DIR
"""
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

TANDEM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
TINY = SOURCE / "tests/data/golden/k3_tiny"
DEMO = SOURCE / "models/demo"


def run(*arguments):
    return subprocess.run([TANDEM, "run", *map(str, arguments)], capture_output=True, text=True, timeout=60)


def read_header(path):
    raw = path.read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8:8 + size]), raw[8 + size:]


def write_header(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class BadInput(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def copy(self, source):
        target = self.folder / source.name
        shutil.copytree(source, target)
        return target

    def expect_refusal(self, model, *words, arguments=("--input-ids", "1,2,3", "--max-tokens", "2")):
        done = run("--model", model, *arguments)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])
        return lines[0]

    # The model's file, with its header changed by `edit(header)`, which may return new data.
    def edited_header(self, edit):
        model = self.copy(TINY)
        path = model / "model.safetensors"
        header, data = read_header(path)
        data = edit(header, data) or data
        write_header(path, header, data)
        return model

    def edited_config(self, edit):
        model = self.copy(TINY)
        path = model / "config.json"
        config = json.loads(path.read_text())
        edit(config)
        path.write_text(json.dumps(config))
        return model

    def test_the_undamaged_model_answers(self):
        done = run("--model", TINY, "--input-ids", "1,2,3", "--max-tokens", "2", "--temperature", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.split()), 2)

    def test_truncated_file(self):
        model = self.copy(TINY)
        path = model / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1024])
        self.expect_refusal(model, "model.safetensors")

    def test_header_length_zero_and_enormous_and_cut_off(self):
        for prefix in (struct.pack("<Q", 0), struct.pack("<Q", 1 << 63), struct.pack("<Q", 1 << 40), b"abc"):
            model = self.copy(TINY)
            path = model / "model.safetensors"
            path.write_bytes(prefix if len(prefix) < 8 else prefix + path.read_bytes()[8:])
            self.expect_refusal(model, "model.safetensors")
            shutil.rmtree(model)

    def test_missing_shard(self):
        model = self.copy(DEMO)
        (model / "model-00002-of-00002.safetensors").unlink()
        self.expect_refusal(model, "model-00002-of-00002.safetensors")

    def test_missing_tensor(self):
        name = "language_model.model.layers.1.self_attn.q_proj.weight"

        def edit(header, data):
            begin, end = header.pop(name)["data_offsets"]
            for entry in header.values():
                if "data_offsets" in entry and entry["data_offsets"][0] >= end:
                    entry["data_offsets"] = [at - (end - begin) for at in entry["data_offsets"]]
            return data[:begin] + data[end:]

        self.expect_refusal(self.edited_header(edit), name)

    def test_wrong_shape(self):
        name = "language_model.model.norm.weight"
        self.expect_refusal(self.edited_header(lambda h, d: h[name].update(shape=[2, 96])), name, "192")

    def test_wrong_dtype(self):
        name = "language_model.model.norm.weight"
        self.expect_refusal(self.edited_header(lambda h, d: h[name].update(dtype="I64", shape=[48])), name)

    def test_non_finite_scale_byte(self):
        name = "language_model.model.layers.1.block_sparse_moe.experts.0.w1.weight_scale"

        def edit(header, data):
            at = header[name]["data_offsets"][0]
            return data[:at] + b"\xff" + data[at + 1:]

        self.expect_refusal(self.edited_header(edit), name, "255")

    def test_unknown_architecture(self):
        model = self.edited_config(lambda c: c.update(architectures=["LlamaForCausalLM"]))
        self.expect_refusal(model, "config.json", "LlamaForCausalLM")

    def test_unknown_activation(self):
        model = self.edited_config(lambda c: c["text_config"].update(hidden_act="gelu"))
        self.expect_refusal(model, "config.json", "hidden_act", "gelu")

    def test_layer_lists_that_do_not_partition(self):
        for lists in ({"kda_layers": [1, 2, 4]}, {"kda_layers": [1, 2, 3, 4, 5]}, {"full_attn_layers": [3, 6, 8]}):
            model = self.edited_config(lambda c: c["text_config"]["linear_attn_config"].update(lists))
            self.expect_refusal(model, "config.json", "layers")
            shutil.rmtree(model)

    def test_config_that_is_not_json(self):
        model = self.copy(TINY)
        (model / "config.json").write_text("{")
        self.expect_refusal(model, "config.json")

    def test_folder_that_does_not_exist(self):
        self.expect_refusal(self.folder / "nothing", "nothing")

    def test_tokenizer_with_a_hole(self):
        model = self.copy(DEMO)
        path = model / "tiktoken.model"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[:700] + lines[701:]))
        self.expect_refusal(model, "tiktoken.model", arguments=("-p", "hi"))

    def test_prompt_longer_than_the_context(self):
        ids = ",".join(["7"] * 4096)
        line = self.expect_refusal(TINY, "4096", arguments=("--input-ids", ids))
        self.assertIn("context", line)

    def test_ids_that_are_none_or_outside_the_vocabulary(self):
        self.expect_refusal(TINY, "--input-ids", arguments=("--input-ids", "1,x,3"))
        self.expect_refusal(TINY, "512", arguments=("--input-ids", "1,512"))

    def test_sampling_out_of_range(self):
        self.expect_refusal(TINY, "temperature", arguments=("--input-ids", "1", "--temperature", "-1"))
        self.expect_refusal(TINY, "top_p", arguments=("--input-ids", "1", "--top-p", "0"))

    def test_text_for_a_model_without_a_tokenizer(self):
        self.expect_refusal(TINY, "--input-ids", arguments=("-p", "hi"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
