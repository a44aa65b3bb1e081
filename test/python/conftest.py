"""The world the clients live in: the gateway's address and keys, and a window to what its upstreams saw."""

import json
import os
import time
import urllib.parse
import urllib.request

import pytest


class World:
    url = os.environ["SLUICE_URL"]
    key = os.environ["SLUICE_KEY"]
    narrow_key = os.environ["SLUICE_NARROW_KEY"]

    def _look(self, path, **query):
        address = f"{os.environ['SLUICE_WORLD']}/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            return json.load(answer)

    def models(self):
        return self._look("models")

    def attempt(self, model):
        """The newest request that the upstream of a model received, and what it sent."""
        return self._look("attempt", model=model)

    def sent(self, model):
        return self.attempt(model)["sent"]

    def received(self, model):
        return self.attempt(model)["received"]

    def lines(self):
        """The access lines since this was last asked."""
        return self._look("lines")

    def sees_departure(self, model, within=2.0):
        """Whether the upstream of a model notices in time that its client has left."""
        deadline = time.monotonic() + within
        while self.attempt(model)["endedBy"] != "client_closed":
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True


@pytest.fixture
def world():
    return World()
