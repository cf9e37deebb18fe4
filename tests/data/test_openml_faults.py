"""Every way in which a server or a network fails, and what is left in the cache afterwards."""

from __future__ import annotations

import json
import logging
import socket
import time
from dataclasses import replace

import pytest
from command_line import call
from openml_server import Reply, cut_short, houses, html, oml_error

from experiments.data import load_table
from experiments.data.openml.client import mask
from experiments.errors import ChecksumError, DataError, DataUnavailableError

TASK = "openml:7"
TASK_PATH = "/api/v1/xml/task/7"
DATA_PATH = "/api/v1/xml/data/1007"
ARFF_PATH = "/data/v1/download/1007/houses.arff"
PARQUET_PATH = "/datasets/0000/1007/dataset_1007.pq"
SPLITS_PATH = "/api_splits/get/7/Task_7_splits.arff"

WELL_FORMED = Reply(502, b"<html><body><p>bad gateway</p></body></html>", "text/html")
PORTAL = Reply(200, b"<html><body><form>log in</form></body></html>", "text/html")
BROKEN_HTML = Reply(200, b"<html><body><br>log in", "text/html")

FAULTS = {
    "412 unknown task": (TASK_PATH, oml_error(151, "Unknown task"), 1, "Unknown task"),
    "412 no data": (DATA_PATH, oml_error(111, "Unknown dataset"), 1, "Unknown dataset"),
    "404 web page": (TASK_PATH, html(404), 1, "127.0.0.1 answers: HTTP 404"),
    "502 web page": (TASK_PATH, html(502), 2, r"failed 2 time\(s\) \(HTTP 502\)"),
    "502 well-formed page": (TASK_PATH, WELL_FORMED, 2, "HTTP 502"),
    "500 without a body": (DATA_PATH, Reply(500), 2, "HTTP 500"),
    "503": (DATA_PATH, html(503), 2, "HTTP 503"),
    "429": (DATA_PATH, html(429), 2, "HTTP 429"),
    "empty 200": (TASK_PATH, Reply(200), 1, "answer is not OpenML's"),
    "log-in page": (TASK_PATH, PORTAL, 1, "answer is not OpenML's"),
    "log-in page for data": (DATA_PATH, PORTAL, 1, "answer is not OpenML's"),
    "broken log-in page": (DATA_PATH, BROKEN_HTML, 1, "does a proxy or a log-in page|malformed"),
    "404 for ARFF": (ARFF_PATH, html(404), 1, "127.0.0.1 answers: HTTP 404"),
    "502 for ARFF": (ARFF_PATH, html(502), 2, "HTTP 502"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_a_typed_sentence_after_so_many_tries(serve, settings, fault) -> None:
    path, reply, tries, told = FAULTS[fault]
    server = serve()
    server.fail(path, reply)
    with pytest.raises(DataUnavailableError, match=told) as caught:
        load_table(TASK, settings(server))
    message = str(caught.value)
    assert server.asked[path] == tries
    assert "oretro data fetch" in message
    assert "\n" not in message
    assert "<html" not in message
    # The twin: nothing but the fault stood in the way, and what came before it was kept.
    server.faults.clear()
    assert len(load_table(TASK, settings(server)).y) == 40


def test_server_that_recovers_is_waited_for(serve, settings) -> None:
    server = serve()
    server.fail(TASK_PATH, html(503), times=1)
    assert len(load_table(TASK, settings(server)).y) == 40
    assert server.asked[TASK_PATH] == 2


@pytest.mark.parametrize("path", [TASK_PATH, DATA_PATH, ARFF_PATH])
def test_body_that_breaks_off_is_tried_again_then_refused(serve, settings, path) -> None:
    server = serve()
    server.spoil(path, cut_short)
    with pytest.raises(DataUnavailableError, match=r"2 time\(s\) \(connection broke"):
        load_table(TASK, settings(server))
    assert server.asked[path] == 2


def test_silent_server_costs_the_time_limit_and_no_more(serve, settings) -> None:
    server = serve()
    server.fail(DATA_PATH, Reply(stall_s=3.0))
    start = time.monotonic()
    with pytest.raises(DataUnavailableError, match=r"no answer within 0\.3 s"):
        load_table(TASK, settings(server, read_timeout_s=0.3))
    assert time.monotonic() - start < 3.0


@pytest.mark.parametrize("parquet", [False, True], ids=["alone", "parquet too"])
@pytest.mark.parametrize("change", [lambda body: body.replace(b"gas", b"oil", 1), lambda _: PORTAL])
def test_wrong_checksum_is_an_error_of_its_own_and_no_data_are_used(
    serve, settings, tmp_path, parquet: bool, change
) -> None:
    server = serve(replace(houses(), parquet=parquet))

    def spoil(usual: Reply) -> Reply:
        changed = change(usual.body)
        return changed if isinstance(changed, Reply) else replace(usual, body=changed)

    server.spoil(ARFF_PATH, spoil)
    with pytest.raises(ChecksumError, match=r"127\.0\.0\.1 sent do not have the md5") as caught:
        load_table(TASK, settings(server))
    assert "cannot be downloaded" not in str(caught.value)
    assert server.asked[PARQUET_PATH] == 0
    assert not [path for path in (tmp_path / "cache").rglob("dataset*") if path.is_file()]
    server.faults.clear()
    assert len(load_table(TASK, settings(server)).y) == 40


def test_accents_do_not_break_the_checksum(serve, settings) -> None:
    # Without a charset in the header the text would be read as Latin-1.
    assert "Straße 0" in set(load_table(TASK, settings(serve())).X["street"])


def test_shortened_arff_without_checksum_is_noticed_by_its_rows(serve, settings) -> None:
    server = serve(replace(houses(), md5=False))

    def shorten(usual: Reply) -> Reply:
        lines = usual.body.splitlines(keepends=True)
        return replace(usual, body=b"".join(lines[:-11]))

    server.spoil(ARFF_PATH, shorten)
    with pytest.raises(DataUnavailableError, match="holds 29 of 40 rows"):
        load_table(TASK, settings(server))


def test_lost_arff_is_replaced_by_parquet(serve, settings) -> None:
    server = serve(replace(houses(), parquet=True))
    server.fail(ARFF_PATH, html(404))
    table = load_table(TASK, settings(server))
    assert server.asked[PARQUET_PATH] == 1
    assert len(table.y) == 40


def test_lost_parquet_is_never_asked_for(serve, settings) -> None:
    server = serve(replace(houses(), parquet=True))
    server.fail(PARQUET_PATH, html(404))
    assert len(load_table(TASK, settings(server)).y) == 40
    assert server.asked[PARQUET_PATH] == 0


@pytest.mark.parametrize("reply", [html(404), html(502), PORTAL], ids=["404", "502", "portal"])
def test_both_files_lost_names_both(serve, settings, reply) -> None:
    server = serve(replace(houses(), parquet=True))
    server.fail(ARFF_PATH, html(404))
    server.fail(PARQUET_PATH, reply)
    with pytest.raises(DataUnavailableError, match=r"ARFF: .*|damaged file"):
        load_table(TASK, settings(server))


def test_failing_splits_cost_official_splits_alone(serve, settings) -> None:
    server = serve()
    server.fail(SPLITS_PATH, oml_error(1234, "failed to perform action generate_folds"))
    with pytest.raises(DataUnavailableError, match="generate_folds"):
        load_table(TASK, settings(server, official=True))
    # The data were kept: they are not asked for again, and our own splits need nothing else.
    assert len(load_table(TASK, settings(server)).y) == 40
    server.faults.clear()
    assert len(load_table(TASK, settings(server, official=True)).splits) == 4
    assert server.asked[ARFF_PATH] == 1


def test_data_set_without_qualities_loads(serve, settings) -> None:
    assert len(load_table(TASK, settings(serve(replace(houses(), qualities=False)))).y) == 40


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_no_network_and_no_cache_says_how_to_fetch_and_asks_once(
    settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []
    real = socket.create_connection
    monkeypatch.setattr(
        "experiments.data.openml.network.socket.create_connection",
        lambda place, **options: tried.append(place) or real(place, **options),
    )
    offline = settings(f"http://127.0.0.1:{closed_port()}/api/v1/xml")
    start = time.monotonic()
    for task in ("openml:7", "openml:8"):
        with pytest.raises(DataUnavailableError) as caught:
            load_table(task, offline)
        message = str(caught.value)
        assert "Connection refused" in message
        assert "oretro data fetch CONFIG --cache DIR" in message
    assert len(tried) == 1
    assert time.monotonic() - start < 15


def test_firewall_that_drops_everything_does_not_hang(
    settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swallowed(*_: object, **__: object) -> None:
        """A lookup of a name, or a connection, that does not come back in time."""
        time.sleep(1.5)
        raise TimeoutError

    monkeypatch.setattr("experiments.data.openml.network.socket.create_connection", swallowed)
    start = time.monotonic()
    with pytest.raises(DataUnavailableError, match=r"no connection within 0\.2 s"):
        load_table(TASK, settings("http://openml.invalid/api/v1/xml", connect_timeout_s=0.2))
    assert time.monotonic() - start < 1.5


KEY = "0123456789abcdef0123456789abcdef"


def test_api_key_is_sent_and_never_shown(
    serve, settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import openml

    monkeypatch.setattr(openml.config, "apikey", KEY)
    caplog.set_level(logging.DEBUG)
    server = serve()
    server.fail(ARFF_PATH, html(404))
    with pytest.raises(DataUnavailableError) as caught:
        load_table(TASK, settings(server))
    assert any(KEY in query for query in server.queries)
    assert KEY not in str(caught.value)
    assert "api_key=***" in caplog.text
    assert KEY not in caplog.text


def test_mask_takes_secrets_out_of_any_address() -> None:
    assert mask("no https://me:word@host/x here") == "no https://***@host/x here"
    assert mask("at https://host/x@y") == "at https://host/x@y"
    assert mask("GET https://x/y?api_key=abc123&z=1") == "GET https://x/y?api_key=***&z=1"
    assert mask("nothing secret") == "nothing secret"


def state() -> dict[str, object]:
    import openml

    calls = openml._api_calls
    return {
        **openml.config.get_config_as_dict(),
        "modules": (calls.requests, calls.minio, calls.logging),
        "filters": list(logging.getLogger("urllib3.connectionpool").filters),
        "factory": logging.getLogRecordFactory(),
        "handlers": list(logging.getLogger().handlers),
    }


@pytest.mark.parametrize("works", [True, False])
def test_clients_settings_are_put_back(serve, settings, works: bool) -> None:
    before = state()
    server = serve()
    if not works:
        server.fail(DATA_PATH, html(404))
    try:
        load_table(TASK, settings(server))
    except DataError:
        assert not works
    assert state() == before


SECRET = "s3cr3t"
ADDRESSES = {
    "password": f"http://me:{SECRET}@127.0.0.1:9/api/v1/xml",
    "hidden password": f"http://me%3A{SECRET}%40127.0.0.1/api/v1/xml",
    "user": f"http://{SECRET}@127.0.0.1:9/api/v1/xml",
    "key": f"http://127.0.0.1:9/api/v1/xml?api_key={SECRET}",
    "fragment": f"http://127.0.0.1:9/api/v1/xml#{SECRET}",
    "port": f"http://127.0.0.1:99999/api/{SECRET}",
    "port 0": f"http://127.0.0.1:0/api/{SECRET}",
    "no host": f"http://:80/api/{SECRET}",
    "brackets": f"http://[::1/api/{SECRET}",
    "line break": f"http://127.0.0.1/api/\n{SECRET}",
}


@pytest.mark.parametrize("kind", ADDRESSES)
def test_address_with_a_secret_is_refused_and_not_repeated(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    monkeypatch.chdir(tmp_path)
    address = json.dumps(ADDRESSES[kind])
    (tmp_path / "s.yaml").write_text(
        f"suite: s\nseeds: [1]\ndatasets: ['openml:7']\nopenml: {{server: {address}, cache: c}}\n"
    )
    for command in (["eval", "s.yaml", "--out", "o"], ["data", "fetch", "s.yaml"]):
        assert call(monkeypatch, *command) == 2
        shown = capsys.readouterr()
        assert "openml.server: " in shown.err
        assert "Traceback" not in shown.err
        assert SECRET not in shown.err + shown.out
    assert [path.name for path in tmp_path.rglob("*")] == ["s.yaml"]


@pytest.mark.parametrize("kind", ["password", "key"])
def test_secret_in_the_address_of_the_clients_own_settings_goes_nowhere(
    kind: str, settings, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    import openml

    monkeypatch.setattr(openml.config, "server", ADDRESSES[kind])
    with pytest.raises(DataUnavailableError, match="own configuration names a server") as caught:
        load_table(TASK, settings(None))
    assert SECRET not in str(caught.value)
    assert list(tmp_path.rglob("*")) == []


ADDRESSES_OF_DATA = ("file:///etc/hostname", "http://127.0.0.1:99999/x", "nowhere", "", "http://[")


@pytest.mark.parametrize("address", ADDRESSES_OF_DATA)
def test_address_of_the_data_that_is_none_is_a_sentence(serve, settings, address: str) -> None:
    server = serve()

    def redirect(usual: Reply) -> Reply:
        there = f"{server.base}{ARFF_PATH}".encode()
        return replace(usual, body=usual.body.replace(there, address.encode()))

    server.spoil(DATA_PATH, redirect)
    with pytest.raises(DataUnavailableError, match="cannot be downloaded"):
        load_table(TASK, settings(server, connect_timeout_s=0.5))


def test_key_goes_to_the_api_alone(serve, settings, monkeypatch: pytest.MonkeyPatch) -> None:
    import openml

    monkeypatch.setattr(openml.config, "apikey", KEY)
    server = serve()
    elsewhere = server.base.replace("127.0.0.1", "localhost").encode()

    def move(usual: Reply) -> Reply:
        return replace(usual, body=usual.body.replace(server.base.encode(), elsewhere))

    server.spoil(DATA_PATH, move)
    assert len(load_table(TASK, settings(server)).y) == 40
    asked = dict(zip(server.asked, server.queries, strict=True))
    assert KEY in asked[TASK_PATH]
    assert KEY not in asked[ARFF_PATH]


@pytest.mark.parametrize("value", ["", "many", "nan", "inf"])
def test_number_of_rows_that_is_none_checks_nothing(serve, settings, value: str) -> None:
    server = serve()
    server.spoil(
        "/data/qualities/1007",
        lambda usual: replace(usual, body=usual.body.replace(b"40.0", value.encode())),
    )
    assert len(load_table(TASK, settings(server)).y) == 40
