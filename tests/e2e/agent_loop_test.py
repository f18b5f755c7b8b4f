"""The agent loop of bench/agent_loop.py, small: 2 sessions of 6 turns. Work only; time is for the benchmark."""
import pathlib
import sys
import unittest

from serving import Server, main

sys.path.insert(0, str(pathlib.Path(sys.argv[2]).resolve() / "bench"))
import agent_loop  # noqa: E402


class AgentLoop(unittest.TestCase):
    def test_a_turn_computes_little_more_than_is_new(self):
        with Server() as server:
            agents, _ = agent_loop.play(server, sessions=2, turns=6, max_tokens=16)
        computed, new, _ = agent_loop.work(agents)
        self.assertGreater(new, 2 * 5 * 100)
        self.assertLessEqual(computed, 1.1 * new)


if __name__ == "__main__":
    main()
