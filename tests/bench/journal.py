#!/usr/bin/env python3
"""Journal append at group commit against SQLite in WAL mode with synchronous=FULL, on the same bytes.

Usage: tests/bench/journal.py PROGRAM [--dir DIR] [--rounds N] [--records N]

PROGRAM is the benchmark program of runtime/benches/journal.rs (`cargo bench -p stockade-runtime --bench journal
--no-run` prints its path). Every round runs each contender once, in an order that turns, so that whatever else the
machine does meets all of them. Medians and their ratios are printed. A plain file with one fdatasync a group is the
ceiling: no journal can be faster.
"""

import argparse
import itertools
import os
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time


def journal(program, place, waiting, records):
    run = [program, "--round", place, str(waiting), str(records)]
    return float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


def sqlite(place, group, lines):
    base = sqlite3.connect(os.path.join(place, "records.db"), isolation_level=None)
    assert base.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    base.execute("PRAGMA synchronous=FULL")
    base.execute("CREATE TABLE record (seq INTEGER PRIMARY KEY, line BLOB NOT NULL)")
    started = time.perf_counter()
    for at in range(0, len(lines), group):
        base.execute("BEGIN IMMEDIATE")
        base.executemany("INSERT INTO record (line) VALUES (?)", ((line,) for line in lines[at : at + group]))
        base.execute("COMMIT")
    seconds = time.perf_counter() - started
    assert base.execute("SELECT count(*) FROM record").fetchone() == (len(lines),)
    base.close()
    return seconds


def plain(place, group, lines):
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    file = os.open(os.path.join(place, "plain"), flags, 0o600)
    started = time.perf_counter()
    for at in range(0, len(lines), group):
        os.write(file, b"".join(lines[at : at + group]))
        os.fdatasync(file)
    seconds = time.perf_counter() - started
    os.close(file)
    return seconds


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("--dir", default=None)
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--records", type=int, default=1024)
    options = options.parse_args()
    top = tempfile.mkdtemp(dir=options.dir)
    try:
        source = os.path.join(top, "source")
        journal(options.program, source, 64, options.records)
        with open(os.path.join(source, "journal", "records.jsonl"), "rb") as file:
            lines = file.readlines()[1:-1]
        assert len(lines) == options.records
        print(f"{len(lines)} records, {sum(map(len, lines)) / len(lines):.0f} bytes each, {options.rounds} rounds")
        for group in (1, 64):
            # A caller that waits alone pays a whole commit a record: fewer records show it.
            few = lines if group > 1 else lines[: len(lines) // 4]
            contenders = {
                "journal": lambda place: journal(options.program, place, group, len(few)),
                "sqlite": lambda place: sqlite(place, group, few),
                "plain": lambda place: plain(place, group, few),
            }
            times = {name: [] for name in contenders}
            for n in range(options.rounds):
                # All orders in turn, and what the one before left behind is on disk before the next begins.
                orders = list(itertools.permutations(contenders))
                for name in orders[n % len(orders)]:
                    place = tempfile.mkdtemp(dir=top)
                    os.sync()
                    times[name].append(contenders[name](place))
                    shutil.rmtree(place)
            medians = {name: statistics.median(seconds) for name, seconds in times.items()}
            print(f"\n{group} waiting:")
            for name, seconds in medians.items():
                ratio = medians["sqlite"] / seconds
                print(f"  {name:8} {len(few) / seconds:8.0f} records/s   {ratio:5.2f} times SQLite")
    finally:
        shutil.rmtree(top)


if __name__ == "__main__":
    main()
