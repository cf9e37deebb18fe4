"""Regression suites of OpenML by id: the server's own listings are never cached by the client.

OpenML-CTR23 is study 353 (Fischer et al., AutoML 2023); TabArena-v0.1 regression is the part of
study "tabarena-v0.1" whose targets are numbers (Erickson et al., 2025). Rows and columns (target
not counted) are those that the suites' authors publish.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownTask:
    """A task of a published suite."""

    task_id: int
    dataset_id: int
    name: str
    rows: int
    columns: int
    suite: str

    @property
    def label(self) -> str:
        """Name in every table: two suites carry different data under one name."""
        return f"{self.name}-{self.task_id}"


_CTR23 = """
361234 44956 abalone 4177 8
361235 44957 airfoil_self_noise 1503 5
361236 44958 auction_verification 2043 7
361237 44959 concrete_compressive_strength 1030 8
361241 44963 physiochemical_protein 45730 9
361242 44964 superconductivity 21263 81
361243 44965 geographical_origin_of_music 1059 116
361244 44966 solar_flare 1066 10
361247 44969 naval_propulsion_plant 11934 14
361249 44971 white_wine 4898 11
361250 44972 red_wine 1599 11
361251 44973 grid_stability 10000 12
361252 44974 video_transcoding 68784 18
361253 44975 wave_energy 72000 48
361254 44976 sarcos 48933 21
361255 44977 california_housing 20640 8
361256 44978 cpu_activity 8192 21
361257 44979 diamonds 53940 9
361258 44980 kin8nm 8192 8
361259 44981 pumadyn32nh 8192 32
361260 44983 miami_housing 13932 15
361261 44984 cps88wages 28155 6
361264 44987 socmob 1156 5
361266 44989 kings_county 21613 21
361267 44990 brazilian_houses 10692 9
361268 44992 fps_benchmark 24624 43
361269 44993 health_insurance 22272 11
361272 45012 fifa 19178 28
361616 41021 Moneyball 1232 14
361617 44960 energy_efficiency 768 8
361618 44962 forest_fires 517 12
361619 44967 student_performance_por 649 30
361621 44970 QSAR_fish_toxicity 908 6
361622 44994 cars 804 17
361623 45402 space_ga 3107 6
"""

_TABARENA = """
363698 46954 QSAR_fish_toxicity 907 6
363625 46917 concrete_compressive_strength 1030 8
363675 46931 healthcare_insurance_expenses 1338 6
363612 46904 airfoil_self_noise 1503 5
363615 46907 Another-Dataset-on-used-Fiat-500 1538 7
363697 46953 QSAR-TID-11 5742 1024
363708 46964 wine_quality 6497 12
363686 46942 miami_housing 13776 15
363678 46934 houses 20640 8
363705 46961 superconductivity 21263 81
363672 46928 Food_Delivery_Time 45451 9
363693 46949 physiochemical_protein 45730 9
363631 46923 diamonds 53940 9
"""


def _read(lines: str, suite: str) -> list[KnownTask]:
    tasks = []
    for line in lines.strip().splitlines():
        task, dataset, name, rows, columns = line.split()
        tasks.append(KnownTask(int(task), int(dataset), name, int(rows), int(columns), suite))
    return tasks


KNOWN_TASKS: dict[int, KnownTask] = {
    task.task_id: task
    for task in (*_read(_CTR23, "OpenML-CTR23"), *_read(_TABARENA, "TabArena-v0.1"))
}


def identify(text: str) -> str | None:
    """Name of the task that ``text`` means: an id, a label, or a name that one suite alone has."""
    if text.isascii() and text.isdigit():
        number = int(text)
        return KNOWN_TASKS[number].label if number in KNOWN_TASKS else f"task-{number}"
    if text.startswith("task-") and text[5:].isdigit():
        return text
    found = [task for task in KNOWN_TASKS.values() if text in (task.label, task.name)]
    return found[0].label if len(found) == 1 else None


def task_id(label: str) -> int:
    """The inverse of ``identify``."""
    return int(label.rpartition("-")[2])
