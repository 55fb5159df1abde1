#!/usr/bin/env python3
"""What faults.sh does to a run: faults, at moments that a seed says, each of which it has to survive; the reckoning.

Usage: faults.py --folder FOLDER --holders 'PID PID PID' [--faults N] [--minutes M] [--seed S] [--kinds K,K]
                 [--every STEPS] [--least-useful PERCENT] [--within NOTICED NEXT] [--again STEPS]
                 -- HYC_RUN OUT OPTION…
       faults.py --compare WHOLE.jsonl LOG.jsonl --steps N
Writes FOLDER/log.jsonl, FOLDER/said and FOLDER/faults.json, the faults with their times, and the number of steps to
FOLDER/steps.
"""
import argparse
import errno
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

KINDS = ("kill", "stop", "cut", "full", "agent", "host")
EXCHANGE_TIMEOUT = 2  # a stopped rank, or one behind a cable that was cut, is waited for so long
HANG_SECONDS = 120  # without a step


class StandstillWatch(threading.Thread):
    """What of the time the machine itself did not run, or had no moment for anybody: then nothing is to be learned."""

    def __init__(self):
        super().__init__(daemon=True)
        self.seconds, self.longest = 0, 0
        self.start()

    def run(self):
        before = time.monotonic()
        while True:
            time.sleep(0.1)
            now = time.monotonic()
            late, before = now - before - 0.1, now
            if late > 0.5:
                self.seconds, self.longest = self.seconds + late, max(self.longest, late)


class Run:
    """hyc-run on the first host, its log by the time at which lines came, and what it says by the same clock."""

    def __init__(self, folder, holders, command, every):
        self.folder, self.holders, self.out, self.flag = folder, holders, command[1], "--agent"
        self.lines, self.said = [], []  # (time, object) and (time, line)
        fifo = os.path.join(folder, "log.fifo")
        os.mkfifo(fifo)
        words = self.on(0) + command + [
            "--steps", "1000000000", "--checkpoint", os.path.join(folder, "runs"), "--checkpoint-every", str(every),
            "--keep", "2", "--max-restarts", "1000", "--exchange-timeout", str(EXCHANGE_TIMEOUT), "--log-file", fifo]
        if "--checkpoint-failure" not in command:
            words += ["--checkpoint-failure", "warn"]
        self.standstills = StandstillWatch()
        self.begin = time.monotonic()
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.readers = [threading.Thread(target=self.read_log, args=(fifo,), daemon=True),
                        threading.Thread(target=self.read_said, daemon=True)]
        for reader in self.readers:
            reader.start()

    def on(self, host):
        return ["nsenter", "--target", self.holders[host], "--net", "--uts", "--mount", "--"]

    def read_log(self, fifo):
        with open(fifo) as source, open(os.path.join(self.folder, "log.jsonl"), "w") as copy:
            for line in source:
                self.lines.append((time.monotonic(), json.loads(line)))
                copy.write(line)

    def read_said(self):
        with open(os.path.join(self.folder, "said"), "w") as copy:
            for line in self.process.stdout:
                text = line.decode(errors="replace").rstrip("\n")
                self.said.append((time.monotonic(), text))
                if not re.search(r"\bstep \d+/", text):
                    copy.write(f"{time.monotonic() - self.begin:9.3f} {text}\n")
                    copy.flush()

    def wait(self, seconds, done):
        """The first true thing that done() gives, or None."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = done()
            if found:
                return found
            if self.process.poll() is not None:
                self.fail(f"hyc-run has ended with status {self.process.returncode}")
            time.sleep(0.02)
        return None

    def first(self, lines, since, wanted):
        """The time of the first of these lines since then that is wanted."""
        for when, line in reversed_until(lines, since):
            if wanted(line):
                return when
        return None

    def next_step(self, since):
        """The first step that is done after a restart since then."""
        restart = self.first(self.lines, since, lambda line: line.get("event") in ("restart", "resize"))
        return restart and self.first(self.lines, restart, lambda line: "loss" in line)

    def fail(self, why):
        print(f"FAILED: {why}; the last that was said:")
        for when, line in [row for row in self.said if "step " not in row[1]][-30:]:
            print(f"{when - self.begin:9.3f} {line}")
        sys.stdout.flush()
        self.process.kill()
        sys.exit(1)

    def processes(self):
        """(number, rank or None for hyc-run's agent, host) of what hyc-run has started on the hosts."""
        networks = {os.readlink(f"/proc/{holder}/ns/net"): host for host, holder in enumerate(self.holders)}
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
                is_agent = words[0].endswith("/hyc-run") and words[1:2] == [self.flag]
                if not is_agent and not words[0].startswith(self.out + "/bin/"):
                    continue
                host = networks.get(os.readlink(f"/proc/{name}/ns/net"))
                with open(f"/proc/{name}/environ", "rb") as file:
                    rank = re.search(rb"(?:^|\0)RANK=(\d+)", file.read())
                if host is not None and (is_agent or rank):
                    found.append((int(name), None if is_agent else int(rank[1]), host))
            except (OSError, IndexError):
                continue  # it has ended meanwhile
        return sorted(found)

    def keepers(self, host):
        """What keeps copies there."""
        self.flag = "--keep-copies"
        found = [row[0] for row in self.processes() if row[1] is None and row[2] == host]
        self.flag = "--agent"
        return found

    def are_whole(self, ranks=4, hosts=2):
        """Whether each rank is there once, and nothing beside them."""
        found = self.processes()
        return (sorted(rank for _, rank, _ in found if rank is not None) == list(range(ranks))
                and sorted(host for _, rank, host in found if rank is None) == list(range(hosts)))


def reversed_until(lines, since):
    """The rows from `since` on, in their order."""
    at = len(lines)
    while at > 0 and lines[at - 1][0] >= since:
        at -= 1
    return lines[at:]


def told_of(text):
    """Of a fault: a line by which hyc-run tells that a rank or a host has failed."""
    return re.search(r"was ended by SIG|ended with status|has given no sign of life|which is stopped by|"
                     r"was killed or crashed|cannot be reached by ssh|was lost|has lost the hyc-run", text)


def kill_rank(run, random_, fault):
    process, rank, host = random_.choice([row for row in run.processes() if row[1] is not None])
    fault.update(rank=rank, host=host)
    os.kill(process, signal.SIGKILL)


def stop_rank(run, random_, fault):
    process, rank, host = random_.choice([row for row in run.processes() if row[1] is not None])
    fault.update(rank=rank, host=host)
    os.kill(process, signal.SIGSTOP)


def kill_agent(run, random_, fault):
    process, _, host = random_.choice([row for row in run.processes() if row[1] is None])
    fault.update(host=host)
    os.kill(process, signal.SIGKILL)


def lose_host(run, random_, fault):
    host = random_.randrange(2)
    fault.update(host=host)
    all_ = [row[0] for row in run.processes() if row[2] == host] + run.keepers(host)
    for process in all_:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it went with another


def cut_link(run, random_, fault):
    host, seconds = random_.randrange(2), random_.uniform(3, 8)
    fault.update(host=host, seconds=round(seconds, 1))
    link = ["nsenter", "--target", run.holders[2], "--net", "--", "ip", "link", "set", f"cable{host}"]
    subprocess.run(link + ["down"], check=True)
    end = time.monotonic() + seconds
    fault["detected"] = run.wait(seconds, lambda: run.first(run.said, fault["at"], told_of))
    time.sleep(max(0, end - time.monotonic()))
    subprocess.run(link + ["up"], check=True)
    fault["up"] = time.monotonic()


def fill_disk(run, random_, fault):
    runs = os.path.join(run.folder, "runs")
    filler, at = os.path.join(runs, "filler"), fault["at"]
    try:
        with open(filler, "wb", buffering=0) as file:
            while file.write(b"\0" * (1 << 16)):
                pass
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    # What was being written as it got full may have had its room; and a run that ends of it starts again.
    fault["detected"] = run.wait(HANG_SECONDS, lambda: run.first(
        run.lines, at, lambda line: line.get("event") in ("checkpoint_failed", "restart")))
    os.unlink(filler)
    if not fault["detected"]:
        run.fail("a full disk is not told of")
    freed = time.monotonic()
    if not run.wait(HANG_SECONDS, lambda: run.first(run.lines, freed, lambda line: line.get("event") == "checkpoint")):
        run.fail("no checkpoint is written after the disk has room again")


DO = {"kill": kill_rank, "stop": stop_rank, "cut": cut_link, "full": fill_disk, "agent": kill_agent, "host": lose_host}


def one_fault(run, kind, random_):
    """What it was, and after how many seconds it was noticed and the next step done."""
    if not run.wait(HANG_SECONDS, run.are_whole):
        run.fail(f"expected a process for each rank and an agent on each host, but there are {run.processes()}")
    fault = {"kind": kind, "at": time.monotonic()}
    DO[kind](run, random_, fault)
    at = fault["at"]
    if kind == "full":
        fault["next"] = run.first(run.lines, at, lambda line: "loss" in line)
    else:
        fault["next"] = run.wait(HANG_SECONDS, lambda: run.next_step(at))
        if not fault["next"]:
            run.process.send_signal(signal.SIGUSR1)
            time.sleep(2)
            run.fail(f"no step comes within {HANG_SECONDS} s after {fault}")
        fault.setdefault("detected", run.first(run.said, at, told_of))
    row = {"kind": kind, "at": round(at - run.begin, 2),
           **{key: fault[key] for key in ("rank", "host", "seconds") if key in fault},
           "detected_s": round(fault["detected"] - at, 2) if fault.get("detected") else None,
           "next_step_s": round(fault["next"] - at, 2)}
    if "up" in fault:
        row["next_step_after_the_cable_s"] = round(fault["next"] - fault["up"], 2)
    print(json.dumps(row), flush=True)
    return row


def reckon(lines, begin, end):
    """The part of the time that kept steps took, by the clock alone: from the line before each to its own, but of one
    that took longer than three of its neighbours no more than they. The run's report begins a step at its first
    micro-batch, and so leaves out what rank 0 waits before it until the others have come so far."""
    spans, before = {}, begin
    for when, line in lines:
        if line.get("event") == "copy":  # which comes in front of the step that was made meanwhile
            before += line["seconds"]
            continue
        if "loss" in line:
            spans[line["step"]] = when - before  # what is done again replaces what was lost
        before = when
    times = [spans[step] for step in sorted(spans)]
    useful = 0
    for i, seconds in enumerate(times):
        usual = statistics.median(times[max(0, i - 25):i + 25])
        useful += seconds if seconds <= 3 * usual else usual
    return useful / (end - begin)


def drive(arguments, command):
    random_ = random.Random(arguments.seed)
    kinds = arguments.kinds.split(",")
    order = (kinds * (arguments.faults // len(kinds) + 1))[:arguments.faults]
    random_.shuffle(order)
    run = Run(arguments.folder, arguments.holders.split(), command, arguments.every)
    if not run.wait(HANG_SECONDS, lambda: run.first(
            run.lines, run.begin, lambda line: line.get("event") in ("checkpoint", "copy"))):
        run.fail("the first checkpoint does not come")
    slot, faults = arguments.minutes * 60 / arguments.faults, []
    for i, kind in enumerate(order):
        at = run.begin + slot * (i + random_.uniform(0.1, 0.6))
        while time.monotonic() < at:
            since = time.monotonic() - HANG_SECONDS
            if since > run.begin and not run.first(run.lines, since, lambda line: "loss" in line):
                run.fail(f"no step has come for {HANG_SECONDS} s, and no fault has happened")
            run.wait(min(1, max(0.01, at - time.monotonic())), lambda: False)
        faults.append(one_fault(run, kind, random_))
    run.wait(max(0, run.begin + arguments.minutes * 60 - time.monotonic()), lambda: False)
    # Past all that was done before the last fault, so that no step is left that only a lost attempt has done.
    steps = [line["step"] for _, line in run.lines if "loss" in line]
    run.wait(HANG_SECONDS, lambda: run.lines[-1][1].get("step", 0) > max(steps))
    run.process.send_signal(signal.SIGTERM)
    try:
        status = run.process.wait(30)
    except subprocess.TimeoutExpired:
        run.fail("hyc-run does not end after SIGTERM")
    end = time.monotonic()
    for reader in run.readers:
        reader.join(5)
    if status != 75:
        run.fail(f"hyc-run has ended with {status}, expected 75")
    for _ in range(100):
        left = run.processes()
        if not left:
            break
        time.sleep(0.05)
    if left:
        run.fail(f"processes are left: {left}")
    tell(arguments, run, faults, end)


def tell(arguments, run, faults, end):
    steps = max(line["step"] for _, line in run.lines if "loss" in line)
    report = next(line for _, line in run.lines if line.get("event") == "report")
    by_clock = reckon(run.lines, run.begin, end)
    with open(os.path.join(arguments.folder, "steps"), "w") as file:
        file.write(f"{steps}\n")
    with open(os.path.join(arguments.folder, "faults.json"), "w") as file:
        json.dump({"faults": faults, "report": report, "useful_by_clock": by_clock, "steps": steps}, file, indent=1)
    print(f"{len(faults)} faults in {end - run.begin:.0f} s, {steps} steps, {report['restarts']} restarts, "
          f"{report['checkpoints']} checkpoints, {report['failed_checkpoints']} that could not be written")
    for kind in KINDS:
        rows = [row for row in faults if row["kind"] == kind]
        if rows:
            detected = [row["detected_s"] for row in rows if row["detected_s"] is not None]
            print(f"  {kind}: {len(rows)}; noticed after at most {max(detected, default=float('nan')):.2f} s, "
                  f"the next step after at most {max(row['next_step_s'] for row in rows):.2f} s")
    if run.standstills.seconds > 0:
        print(f"the machine itself stood still for {run.standstills.seconds:.1f} s, at most {run.standstills.longest:.1f} s")
    print(f"useful: {report['useful'] * 100:.1f} % by the run's report, {by_clock * 100:.1f} % by the clock")
    noticed, next_step = arguments.within
    missed = []
    if by_clock * 100 < arguments.least_useful:
        missed.append(f"the useful time by the clock is less than {arguments.least_useful} %")
    for row in faults:
        detected = row["detected_s"]
        if row["kind"] == "kill" and (detected is None or detected > noticed or row["next_step_s"] > next_step):
            missed.append(f"a killed rank is to be noticed within {noticed} s, the next step done within "
                                 f"{next_step} s: {row}")
    if arguments.again is not None:
        missed += again(arguments, run)
    # After the comparison of bits, which is worth more.
    with open(os.path.join(arguments.folder, "verdict"), "w") as file:
        file.writelines(line + "\n" for line in missed)


def again(arguments, run):
    """What restarts had done again beyond what they may, and what hosts held beyond what was declared."""
    missed, last, copies = [], 0, 0
    for _, line in run.lines:
        if line.get("event") == "restart":
            copies += "in memory" in line.get("path", "")
            if last - line["step"] > arguments.again:
                missed.append(f"{last - line['step']} steps are done again after {line}")
            last = line["step"]
        last = line["step"] if "loss" in line else last
    with open(os.path.join(run.out, "memory.json")) as file:
        stages = json.load(file)["stages"]
    # Two hosts: each has all of its ranks, and of the other's.
    declared = sum(stage["ranks"] * stage["copy_bytes"] for stage in stages)
    said = next(text for _, text in run.said if "copies in memory took at most: " in text)
    held = [float(size) for size in re.findall(r" ([0-9.]+) MiB", said.split("at most: ")[1])]
    print(f"{copies} restarts from copies; held at most {max(held):.1f} MiB on a host, declared {declared / 2**20:.1f}")
    if copies == 0:
        missed.append("no restart went on from a copy")
    if len(held) != 2 or max(held) > declared / 2**20 or min(held) * 4 < declared / 2**20:
        missed.append(f"hosts held {held} MiB of copies, declared {declared / 2**20:.1f}")
    return missed


def compare(whole, log, steps):
    """Every step's numbers, as often as it was done."""
    def numbers(path):
        rows = []
        with open(path) as file:
            for line in file:
                row = json.loads(line)
                if "loss" in row:
                    rows.append((row["step"], row["loss"], row["grad_norm"]))
        return rows
    expected = {row[0]: row for row in numbers(whole)}
    got = numbers(log)
    others = [row for row in got if expected.get(row[0]) != row]
    if len(expected) != steps or {row[0] for row in got} != set(expected) or others:
        missing = sorted(set(expected) - {row[0] for row in got})
        sys.exit(f"{len(others)} of {len(got)} rows differ from those of the whole run, first {others[:3]}; "
                 f"steps are missing: {missing[:3]}")
    print(f"losses and gradient norms of {steps} steps: the same text, and of {len(got) - steps} that were done again")


def main():
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser()
    parser.add_argument("--compare", nargs=2)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--folder")
    parser.add_argument("--holders")
    parser.add_argument("--faults", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="kill,stop,cut,full,agent")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--least-useful", type=float, default=0)
    parser.add_argument("--again", type=int)
    parser.add_argument("--within", type=float, nargs=2, default=(1, 5))
    arguments = parser.parse_args(sys.argv[1:at])
    if arguments.compare:
        compare(*arguments.compare, arguments.steps)
    else:
        drive(arguments, sys.argv[at + 1:])


if __name__ == "__main__":
    main()
