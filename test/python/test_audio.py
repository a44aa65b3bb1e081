"""The official client's audio, in front of the models of this machine. It starts a gateway of its own."""

import asyncio
import io
import json
import os
import re
import subprocess
import time
import wave
from pathlib import Path

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

ROOT = Path(__file__).resolve().parent.parent.parent
JFK = ROOT / "test/fixtures/audio/jfk.wav"
KEY = "sk-audio-of-these-tests"
WHISPER = "embedded/whisper-base"
FLITE = "embedded/flite"
SAID = "and so my fellow americans ask not what your country can do for you ask what you can do for your country"


def words(text):
    return re.findall(r"[a-z']+", text.lower())


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The address of a gateway that was started without a file, as a user would."""
    home = tmp_path_factory.mktemp("home")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "SLUICE_KEY": KEY}
    with open(home / "log", "wb") as log:
        command = ["sh", str(ROOT / "bin/sluice"), "start", "--listen", "127.0.0.1:0"]
        gateway = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield listening(gateway, home / "log")
    finally:
        gateway.kill()
        gateway.wait()


def listening(gateway, log, within=15.0):
    deadline = time.monotonic() + within
    while gateway.poll() is None and time.monotonic() < deadline:
        for line in log.read_text().splitlines():
            if line.startswith("{") and json.loads(line).get("event") == "listening":
                return json.loads(line)["url"] + "/v1"
        time.sleep(0.02)
    raise AssertionError(f"the gateway does not listen; it said:\n{log.read_text()}")


@pytest.fixture
def client(url):
    with OpenAI(api_key=KEY, base_url=url, max_retries=0, timeout=60) as client:
        yield client


def test_the_models_of_this_machine_are_listed(client):
    models = {model.id: model.description for model in client.models.list()}
    assert sorted(models) == [FLITE, "embedded/stories-15m", WHISPER]
    assert all(models.values())


def test_an_open_file_is_written_down(client):
    with open(JFK, "rb") as file:
        transcript = client.audio.transcriptions.create(model=WHISPER, file=file)
    assert words(transcript.text) == words(SAID)
    assert transcript.usage.seconds == 11


@pytest.mark.parametrize("name", ["speech.wav", "größe.wav", "no extension"])
def test_bytes_with_a_name_are_written_down(client, name):
    transcript = client.audio.transcriptions.create(model=WHISPER, file=(name, JFK.read_bytes()))
    assert words(transcript.text) == words(SAID)


def test_text_srt_and_vtt_are_strings(client):
    def ask(response_format):
        return client.audio.transcriptions.create(model=WHISPER, file=JFK, response_format=response_format)

    text = ask("text")
    assert isinstance(text, str) and words(text) == words(SAID)
    number, times, *lines = ask("srt").strip().split("\n")
    assert number == "1"
    start, end = re.fullmatch(r"00:00:(\d\d,\d{3}) --> 00:00:(\d\d,\d{3})", times).groups()
    assert 0 <= float(start.replace(",", ".")) < float(end.replace(",", ".")) <= 11
    assert words(" ".join(lines)) == words(SAID)
    head, empty, times, *lines = ask("vtt").strip().split("\n")
    assert (head, empty) == ("WEBVTT", "")
    assert re.fullmatch(r"00:00:\d\d\.\d{3} --> 00:00:\d\d\.\d{3}", times)
    assert words(" ".join(lines)) == words(SAID)


def test_the_detailed_answer_has_words_and_segments(client):
    found = client.audio.transcriptions.create(
        model=WHISPER, file=JFK, response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    assert found.language == "english"
    assert float(found.duration) == pytest.approx(11, abs=0.1)
    assert [words(word.word) for word in found.words] == [[word] for word in words(SAID)]
    starts = [word.start for word in found.words]
    assert starts == sorted(starts) and found.words[-1].end <= 11
    assert words("".join(segment.text for segment in found.segments)) == words(SAID)
    assert found.segments[0].no_speech_prob < 0.5


def test_a_stream_is_iterated_to_its_end(client):
    events = list(client.audio.transcriptions.create(model=WHISPER, file=JFK, stream=True))
    *deltas, done = events
    assert {event.type for event in deltas} == {"transcript.text.delta"}
    assert done.type == "transcript.text.done"
    assert "".join(event.delta for event in deltas) == done.text
    assert words(done.text) == words(SAID)


def test_a_translation_is_english(client):
    assert words(client.audio.translations.create(model=WHISPER, file=JFK).text) == words(SAID)


SPOKEN = {"model": FLITE, "voice": "rms", "input": "Hello from this machine. How are you today?"}
BEGINNINGS = {"mp3": b"\xff", "opus": b"OggS", "aac": b"\xff", "flac": b"fLaC", "wav": b"RIFF"}


@pytest.mark.parametrize("response_format", BEGINNINGS)
def test_speech_is_streamed_to_a_file(client, tmp_path, response_format):
    path = tmp_path / "speech"
    with client.audio.speech.with_streaming_response.create(**SPOKEN, response_format=response_format) as response:
        response.stream_to_file(path)
    written = path.read_bytes()
    assert written.startswith(BEGINNINGS[response_format])
    assert len(written) > 4_000


def test_speech_is_iterated_in_pieces(client):
    with client.audio.speech.with_streaming_response.create(**SPOKEN, response_format="pcm") as response:
        assert response.headers["content-type"] == "audio/pcm"
        pieces = list(response.iter_bytes(chunk_size=4_096))
    assert len(pieces) > 10
    # Signed 16 bit at 24 kHz.
    assert 1.0 < len(b"".join(pieces)) / 48_000 < 8.0


def test_whole_speech_is_written_down_again(client):
    samples = client.audio.speech.create(**SPOKEN, response_format="pcm").read()
    file = io.BytesIO()
    with wave.open(file, "wb") as target:
        target.setparams((1, 2, 24_000, 0, "NONE", ""))
        target.writeframes(samples)
    transcript = client.audio.transcriptions.create(model=WHISPER, file=("speech.wav", file.getvalue()))
    assert words(transcript.text) == words(SPOKEN["input"])


def test_speech_comes_as_events(client):
    with client.audio.speech.with_streaming_response.create(**SPOKEN, stream_format="sse") as response:
        events = [json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    assert events[-1]["type"] == "speech.audio.done"


def test_asynchronous_calls_run_beside_one_another(url):
    async def both():
        async with AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0, timeout=60) as client:
            speech, transcript = await asyncio.gather(
                client.audio.speech.create(**SPOKEN), client.audio.transcriptions.create(model=WHISPER, file=JFK)
            )
            return speech.content, transcript.text

    audio, text = asyncio.run(both())
    assert audio.startswith(b"\xff")
    assert words(text) == words(SAID)


def test_refusals_name_the_field(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.audio.speech.create(**{**SPOKEN, "input": "Привет, как дела?"})
    assert (refused.value.param, refused.value.code) == ("input", "unsupported_language")
    with pytest.raises(openai.BadRequestError) as refused:
        client.audio.transcriptions.create(model=WHISPER, file=JFK, language="klingon")
    assert refused.value.param == "language"
    with pytest.raises(openai.BadRequestError) as refused:
        client.audio.transcriptions.create(model=WHISPER, file=("letter.wav", b"Dear brother, this is a letter. " * 40))
    assert refused.value.param == "file"
    with pytest.raises(openai.NotFoundError):
        client.audio.speech.create(**{**SPOKEN, "model": "embedded/nobody"})


def test_a_file_beyond_the_limit_is_refused_with_413(client):
    with pytest.raises(openai.APIStatusError) as refused:
        client.audio.transcriptions.create(model=WHISPER, file=("large.wav", JFK.read_bytes() * 80))
    assert refused.value.status_code == 413
