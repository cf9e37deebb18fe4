"""A server on this machine that answers like OpenML, and misbehaves when it is told to."""

from __future__ import annotations

import hashlib
import io
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

OML = 'xmlns:oml="http://openml.org/openml"'


@dataclass(frozen=True)
class Reply:
    """What goes over the wire; ``length`` differs from the body's where it is cut short."""

    status: int = 200
    body: bytes = b""
    kind: str = "text/xml"
    length: int | None = None
    stall_s: float = 0.0


def html(status: int) -> Reply:
    page = f"<html><head><title>{status}</title></head><body>\n<hr>nginx</body></html>"
    return Reply(status, page.encode(), "text/html")


def oml_error(code: int, message: str) -> Reply:
    told = f"<oml:code>{code}</oml:code><oml:message>{message}</oml:message>"
    return Reply(412, f"<oml:error {OML}>{told}</oml:error>".encode())


@dataclass
class ToyData:
    """One data set in both file formats, and what the server says about it."""

    frame: pd.DataFrame
    attributes: dict[str, str]
    """ARFF type of each column, in file order."""
    target: str = "price"
    row_id: str = ""
    ignore: tuple[str, ...] = ()
    parquet: bool = False
    md5: bool = True
    data_format: str = "ARFF"
    task_type: tuple[int, str] = (2, "Supervised Regression")
    qualities: bool = True
    status: str = "active"
    arff_text: str = ""
    folds: int = 4

    def arff(self) -> bytes:
        if self.arff_text:
            return self.arff_text.encode()
        lines = ["@RELATION toy", ""]
        lines += [f"@ATTRIBUTE '{name}' {kind}" for name, kind in self.attributes.items()]
        lines += ["", "@DATA"]
        for row in self.frame[list(self.attributes)].itertuples(index=False):
            lines.append(",".join(_arff_cell(cell) for cell in row))
        return ("\n".join(lines) + "\n").encode()

    def parquet_bytes(self) -> bytes:
        buffer = io.BytesIO()
        self.frame.to_parquet(buffer, index=False)
        return buffer.getvalue()

    def splits(self) -> bytes:
        lines = ["@RELATION splits", "@ATTRIBUTE type {TRAIN,TEST}", "@ATTRIBUTE rowid INTEGER"]
        lines += ["@ATTRIBUTE repeat INTEGER", "@ATTRIBUTE fold INTEGER", "@DATA"]
        for fold in range(self.folds):
            for row in range(len(self.frame)):
                part = "TEST" if row % self.folds == fold else "TRAIN"
                lines.append(f"{part},{row},0,{fold}")
        return ("\n".join(lines) + "\n").encode()


def _arff_cell(cell: object) -> str:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return "?"
    if isinstance(cell, str):
        escaped = cell.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return str(cell)


def houses(rows: int = 40, seed: int = 0) -> ToyData:
    """Every kind of column that OpenML knows, with gaps, an identifier and a forbidden column."""
    rng = np.random.default_rng(seed)
    size = rng.integers(20, 200, rows)
    frame = pd.DataFrame(
        {
            "row": np.arange(rows),
            "size": size,
            "age": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(30, 9, rows).round(2)),
            "heating": rng.choice(["gas", "oil, old", "none's"], rows),
            "garden": rng.choice(["True", "False"], rows),
            "stars": rng.choice(["1", "2", "10"], rows),
            "street": [f"Straße {number % 7}" for number in range(rows)],
            "tax": (size * 3.1).round(1),
            "price": (size * 1000.0 + rng.normal(0, 500, rows)).round(1),
        }
    )
    frame.loc[3, "heating"] = None
    attributes = {
        "row": "INTEGER",
        "size": "INTEGER",
        "age": "REAL",
        "heating": "{gas,'oil, old','none\\'s',never}",
        "garden": "{True,False}",
        "stars": "{1,2,10}",
        "street": "STRING",
        "tax": "REAL",
        "price": "NUMERIC",
    }
    for name in ("heating", "garden", "stars"):
        frame[name] = frame[name].astype("category")
    return ToyData(frame, attributes, row_id="row", ignore=("tax",))


@dataclass
class FakeOpenML:
    """Serves tasks by id; data set ids are task ids + 1000."""

    tasks: dict[int, ToyData]
    faults: dict[str, Callable[[int, Reply], Reply]] = field(default_factory=dict)
    """By the end of a path: the reply in place of the usual one, given how often it was asked."""
    asked: Counter[str] = field(default_factory=Counter)
    queries: list[str] = field(default_factory=list)

    def __enter__(self) -> FakeOpenML:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake._answer(self, send_body=True)

            def do_HEAD(self) -> None:
                fake._answer(self, send_body=False)

            def log_message(self, *_: object) -> None:
                """Keep the test's stderr clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def api(self) -> str:
        return f"{self.base}/api/v1/xml"

    def fail(self, path_end: str, reply: Reply, times: int = 10**6) -> None:
        """Answer the first ``times`` requests for a path with ``reply``."""
        self.faults[path_end] = lambda count, usual: reply if count <= times else usual

    def spoil(self, path_end: str, change: Callable[[Reply], Reply]) -> None:
        """Answer with a changed form of the usual reply."""
        self.faults[path_end] = lambda count, usual: change(usual)

    def _answer(self, handler: BaseHTTPRequestHandler, *, send_body: bool) -> None:
        address = urlsplit(handler.path)
        self.queries.append(address.query)
        reply = self._usual(address.path)
        if send_body:
            self.asked[address.path] += 1
        for end, fault in self.faults.items():
            if address.path.endswith(end):
                reply = fault(self.asked[address.path], reply)
        if reply.stall_s:
            time.sleep(reply.stall_s)
        try:
            handler.send_response(reply.status)
            handler.send_header("Content-Type", reply.kind)
            length = len(reply.body) if reply.length is None else reply.length
            handler.send_header("Content-Length", str(length))
            handler.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            handler.send_header("ETag", f'"{hashlib.md5(reply.body).hexdigest()}"')
            if reply.length is not None:
                handler.send_header("Connection", "close")
                handler.close_connection = True
            handler.end_headers()
            if send_body:
                handler.wfile.write(reply.body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client gave up on a stalled answer

    def _usual(self, path: str) -> Reply:
        parts = [part for part in path.split("/") if part]
        kind, number = "/".join(parts[:-1]), parts[-1]
        if kind == "api/v1/xml/task":
            known = int(number) in self.tasks
            return self._task(int(number)) if known else oml_error(151, "Unknown task")
        if kind == "api/v1/xml/data":
            return self._description(int(number))
        if kind == "api/v1/xml/data/qualities":
            return self._qualities(int(number))
        if kind == "api/v1/xml/data/features":
            return self._features(int(number))
        if kind.startswith("data/v1/download/"):
            return Reply(body=self._data(int(parts[-2])).arff(), kind="text/plain")
        if kind.startswith("datasets/"):
            body = self._data(int(parts[-2])).parquet_bytes()
            return Reply(body=body, kind="application/octet-stream")
        if kind.startswith("api_splits/get/"):
            return Reply(body=self.tasks[int(parts[-2])].splits(), kind="text/plain")
        return html(404)

    def _data(self, number: int) -> ToyData:
        return self.tasks[number - 1000]

    def _task(self, number: int) -> Reply:
        data = self.tasks[number]
        type_id, type_name = data.task_type
        body = f"""<oml:task {OML}>
<oml:task_id>{number}</oml:task_id><oml:task_name>t</oml:task_name>
<oml:task_type_id>{type_id}</oml:task_type_id><oml:task_type>{type_name}</oml:task_type>
<oml:input name="source_data"><oml:data_set>
<oml:data_set_id>{number + 1000}</oml:data_set_id>
<oml:target_feature>{data.target}</oml:target_feature></oml:data_set></oml:input>
<oml:input name="estimation_procedure"><oml:estimation_procedure>
<oml:id>1</oml:id><oml:type>crossvalidation</oml:type>
<oml:data_splits_url>{self.base}/api_splits/get/{number}/Task_{number}_splits.arff</oml:data_splits_url>
<oml:parameter name="number_repeats">1</oml:parameter>
<oml:parameter name="number_folds">{data.folds}</oml:parameter>
</oml:estimation_procedure></oml:input>
<oml:input name="cost_matrix"><oml:cost_matrix/></oml:input>
</oml:task>"""
        return Reply(body=body.encode())

    def _description(self, number: int) -> Reply:
        data = self._data(number)
        extra = ""
        if data.parquet:
            url = f"{self.base}/datasets/0000/{number}/dataset_{number}.pq"
            extra += f"<oml:parquet_url>{url}</oml:parquet_url>"
        if data.md5:
            digest = hashlib.md5(data.arff()).hexdigest()
            extra += f"<oml:md5_checksum>{digest}</oml:md5_checksum>"
        if data.row_id:
            extra += f"<oml:row_id_attribute>{data.row_id}</oml:row_id_attribute>"
        for name in data.ignore:
            extra += f"<oml:ignore_attribute>{name}</oml:ignore_attribute>"
        body = f"""<oml:data_set_description {OML}>
<oml:id>{number}</oml:id><oml:name>houses</oml:name><oml:version>1</oml:version>
<oml:format>{data.data_format}</oml:format><oml:licence>CC0</oml:licence>
<oml:url>{self.base}/data/v1/download/{number}/houses.arff</oml:url>
<oml:status>{data.status}</oml:status>{extra}
</oml:data_set_description>"""
        return Reply(body=body.encode())

    def _features(self, number: int) -> Reply:
        """Asked for by the client when a task is a classification."""
        features = ""
        for index, name in enumerate(self._data(number).attributes):
            features += (
                f"<oml:feature><oml:index>{index}</oml:index><oml:name>{name}</oml:name>"
                "<oml:data_type>nominal</oml:data_type><oml:nominal_value>1</oml:nominal_value>"
                "<oml:number_of_missing_values>0</oml:number_of_missing_values></oml:feature>"
            )
        body = f"<oml:data_features {OML}>{features}</oml:data_features>"
        return Reply(body=body.encode())

    def _qualities(self, number: int) -> Reply:
        data = self._data(number)
        if not data.qualities:
            return oml_error(362, "No qualities found")
        body = f"""<oml:data_qualities {OML}><oml:quality><oml:name>NumberOfInstances</oml:name>
<oml:value>{len(data.frame)}.0</oml:value></oml:quality></oml:data_qualities>"""
        return Reply(body=body.encode())


def cut_short(reply: Reply) -> Reply:
    """Half of the body under the length of the whole."""
    return replace(reply, body=reply.body[: len(reply.body) // 2], length=len(reply.body))
