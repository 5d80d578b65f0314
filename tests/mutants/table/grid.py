"""Faults in ``iot_mqtt.grid``: what is on the disk, in which order, and what a start believes of it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

_COMMIT_LOG: Final = "iot_mqtt/grid/commit_log.py"
_WRITING: Final = "iot_mqtt/grid/log/writing.py"
_FOLLOWED: Final = "iot_mqtt/grid/log/followed_catalogue.py"
_INDEX: Final = "iot_mqtt/grid/log/index.py"
_PAGES: Final = "iot_mqtt/grid/log/pages.py"
_IGNITE: Final = "iot_mqtt/grid/ignite/writing.py"
_LOG: Final = "tests/unit/grid/test_commit_log.py"
_POWER: Final = "tests/unit/grid/test_commit_log_power.py"
_WRITTEN: Final = "tests/unit/grid/test_log_written.py"
_SUITE: Final = "tests/contract/test_log_memory.py"
_GATEWAY: Final = "tests/unit/grid/ignite/test_writing.py"

GRID: Final = (
    Mutation(
        "grid.page-checksum",
        "iot_mqtt/grid/log/page.py",
        "if crc32(page[_COVERED:]) != checksum:",
        "if not checksum:",
        ("tests/unit/grid/test_log_page.py",),
        "damaged messages are delivered",
    ),
    Mutation(
        "grid.page-count",
        "iot_mqtt/grid/log/page.py",
        "isinstance(run, PublishRun) and run.count == messages and not decoder.buffered",
        "isinstance(run, PublishRun) and not decoder.buffered",
        ("tests/unit/grid/test_log_page.py",),
        "a page that holds fewer messages than it says moves all positions behind it",
    ),
    Mutation(
        "grid.page-of-later-versions",
        "iot_mqtt/grid/log/page.py",
        "if version >> 4 != VERSION >> 4:",
        "if version >> 4 < VERSION >> 4:",
        ("tests/unit/grid/test_log_page.py",),
        "a page of a later format is read as if it were ours",
    ),
    Mutation(
        "grid.given-up-for-a-moment",
        _FOLLOWED,
        "if read is not None and self._given_up.get(id) == read.first:",
        "if read is None:",
        ("tests/unit/broker/test_losses_elsewhere.py",),
        "what is counted as lost is sent after all, or counted once more",
    ),
    Mutation(
        "grid.streams-come-in-order",
        _FOLLOWED,
        "await self._fetch(generation, sorted(streams - generation.streams.keys()))",
        "await self._fetch(generation, sorted(id for id in streams if id >= generation.next_stream))",
        (_SUITE,),
        "messages of streams whose records were written later than those of higher numbers are skipped",
    ),
    Mutation(
        "grid.streams-counted-from-the-end",
        _FOLLOWED,
        "numbers = range(generation.next_stream + unknown)",
        "numbers = range(generation.next_stream, generation.next_stream + unknown)",
        (_SUITE,),
        "the same, where the turns that name them were not seen",
    ),
    Mutation(
        "grid.plans-of-dropped-generations",
        _INDEX,
        "if not any(generation.state == DROPPING for generation in generations):",
        "if True:",
        (_WRITTEN,),
        "every read asks the grid for pages that are gone",
    ),
    Mutation(
        "grid.pages-of-dropped-generations",
        _PAGES,
        "if place[0].generation.state == DROPPING:",
        "if False:",
        (_WRITTEN,),
        "messages that an operator has deleted are read by whoever asks at that moment",
    ),
    Mutation(
        "grid.column-of-a-dropped-generation",
        _PAGES,
        "return [] if stream.generation.state == DROPPING else found",
        "return found",
        (_WRITTEN,),
        "the same, where they are in memory",
    ),
    Mutation(
        "grid.weight-of-properties",
        _PAGES,
        "weight = size + sum([_WRITTEN_WEIGHT * len(runs) + _properties(runs) for runs in written.values()])",
        "weight = size + sum([_WRITTEN_WEIGHT * len(runs) for runs in written.values()])",
        (_WRITTEN,),
        "messages with many properties take several times the memory that the cache may have",
    ),
    Mutation(
        "grid.memory-of-a-dropped-generation",
        "iot_mqtt/grid/log/catalogue.py",
        "        self._forgotten(generation)\n",
        "",
        (_WRITTEN,),
        "what an operator has deleted stays in memory until something else takes its place",
    ),
    Mutation(
        "grid.summaries-first",
        _WRITING,
        "batch.operations += summaries.operations",
        "batch.operations[:0] = summaries.operations",
        ("tests/unit/grid/test_log_written.py", _SUITE),
        "a crash inside of a batch leaves a turn that is found, and has no messages",
    ),
    Mutation(
        "grid.record-checksum",
        "iot_mqtt/grid/commit_record.py",
        'if found != salt or len(body) != length or crc32(body, crc32(pack("<QI", lsn, length))) != crc:',
        "if found != salt or len(body) != length:",
        (_LOG, _POWER),
        "a torn batch is taken for a whole one",
    ),
    Mutation(
        "grid.gap-in-the-log",
        _COMMIT_LOG,
        "if record.lsn > first + len(found):\n            where",
        "if record.lsn < 0:\n            where",
        (_LOG,),
        "a start goes on silently although acknowledged batches are damaged",
    ),
    Mutation(
        "grid.segment-missing",
        _COMMIT_LOG,
        "if part.first > first + len(found):",
        "if part.first < 0:",
        (_LOG,),
        "a start goes on silently although a segment is missing",
    ),
    Mutation(
        "grid.segment-name-unsynced",
        _COMMIT_LOG,
        "        sync_directory(self._directory)\n        self.failed = False",
        "        self.failed = False",
        (_LOG, _POWER),
        "the power takes the file that acknowledged batches are in",
    ),
    Mutation(
        "grid.fsync-dropped",
        _COMMIT_LOG,
        "write_at(self.file, record, self._offset, sync)",
        "write_at(self.file, record, self._offset, False)",
        (_LOG, _POWER, "tests/unit/grid/test_engine.py"),
        "the power takes what was acknowledged",
    ),
    Mutation(
        "grid.write-after-failure",
        _COMMIT_LOG,
        "        self.failed = True\n        if number := write_at",
        "        if number := write_at",
        (_LOG, "tests/unit/grid/test_engine.py"),
        "after a failed sync it is written on behind bytes that may not be there",
    ),
    Mutation(
        "grid.ignite-broken-is-done",
        _IGNITE,
        'return Unavailable("the connection to the gateway broke; what was on its way may be written or not")',
        "return None",
        (_GATEWAY,),
        "a message is acknowledged whose commit was lost with its connection",
    ),
    Mutation(
        "grid.ignite-refusal-is-done",
        _IGNITE,
        "        if done.status == Status.DONE:\n            return None\n        if done.status == Status.FENCED:",
        "        if done.status != Status.FENCED:\n            return None\n        if done.status == Status.FENCED:",
        (_GATEWAY,),
        "a message is acknowledged that the grid had no room for",
    ),
    Mutation(
        "grid.ignite-swap-doubt",
        _IGNITE,
        "            if value == swap.value:\n                swap.decide(swapped=True)",
        "            if value == swap.value:\n                swap.decide(swapped=False)",
        (_GATEWAY,),
        "a node gives up a client that is its own",
    ),
    Mutation(
        "grid.ignite-swap-stolen",
        _IGNITE,
        "            else:\n                swap.decide(swapped=False)\n        self._queue.extendleft",
        "            else:\n                swap.decide(swapped=True)\n        self._queue.extendleft",
        (_GATEWAY,),
        "two nodes own one client",
    ),
    Mutation(
        "grid.ignite-waiting-limit",
        _IGNITE,
        "if self._queued + commit.size > self._settings.waiting_limit and self._queue:",
        "if self._queued < 0:",
        (_GATEWAY,),
        "no bound for what waits for a slow grid",
    ),
    Mutation(
        "grid.ignite-needed-together",
        _IGNITE,
        "if not isinstance(commit, _Commit) or commit.needed is not self._needed:",
        "if not isinstance(commit, _Commit):",
        (_GATEWAY,),
        "what may be refused for want of room takes with it what may not, or uses its room",
    ),
    Mutation(
        "grid.ignite-frame-limit",
        "iot_mqtt/grid/ignite/frames.py",
        "if not 1 <= length <= self._limit:",
        "if not 1 <= length:",
        ("tests/unit/grid/ignite/test_frames.py",),
        "whoever answers at the gateway's port fills the memory",
    ),
    Mutation(
        "grid.unfinished-served",
        "iot_mqtt/app/node/service.py",
        "        await refuse_unfinished(self._grid)\n        number",
        "        number",
        ("tests/unit/app/node/test_lives.py",),
        "a node serves the part of a backup that a killed restore has put back",
    ),
    Mutation(
        "grid.unfinished-kept",
        "iot_mqtt/grid/archive/filling.py",
        "    if again:\n        await _remove_all(grid, skip)\n",
        "",
        ("tests/unit/app/backup/test_restoring.py",),
        "a restore that was killed cannot be run again",
    ),
    Mutation(
        "grid.copy-of-another-user",
        "iot_mqtt/app/node/grid_copies.py",
        "        return True  # another user's\n",
        "        return False\n",
        ("tests/unit/app/node/test_grid_copies.py",),
        "a copy that root makes a backup of is removed while it is read",
    ),
    Mutation(
        "grid.roots-files",
        "iot_mqtt/app/backup/ownership.py",
        "owner.st_uid != _ROOT and top.exists()",
        "False",
        ("tests/unit/app/backup/test_ownership.py",),
        "a node cannot open what root has restored for it",
    ),
)
