#!/usr/bin/env python3
"""Sizes caches for many volumes at once, on all workers of a Dask cluster.

Each task makes one shard of `kickcache simulate trace DIRECTORY` and writes a Parquet file; the files together are
one table. Traces, the directory of results and the program must be at the same paths on every worker.

  sweep.py traces/ --sizes 1G,4G,16G --shards 64                        workers on this machine
  sweep.py traces/ --sizes 1G,4G,16G --shards 1000 --scheduler tcp://head:8786
  sweep.py traces/ --sizes 1G,4G,16G --shards 64 --worth 0.02           stop where more cache gives less than 2 points

Needs the packages dask, distributed, pandas and pyarrow.
"""
import argparse
import pathlib
import subprocess
import sys

import dask.dataframe
import pandas
from dask.distributed import Client, as_completed


def simulate(program, traces, sizes, shard, shards, out):
    """Makes one shard; gives the name of its table."""
    table = pathlib.Path(out) / f"{shard:06}.parquet"
    command = [program, "simulate", "trace", traces, "--sizes", sizes, "--shard", f"{shard}/{shards}",
               "--parquet", str(table)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"shard {shard}/{shards} failed: {done.stderr.strip()}")
    return str(table)


def recommend(frame, worth):
    """For each trace the smallest size whose successor hits less than `worth` more."""
    frame = frame.sort_values(["trace", "cache_bytes"])
    for trace, sizes in frame.groupby("trace"):
        best = sizes.iloc[0]
        for _, size in sizes.iloc[1:].iterrows():
            if size.hit_ratio - best.hit_ratio < worth:
                break
            best = size
        yield {"trace": trace, "size": best["size"], "cache_bytes": best.cache_bytes, "hit_ratio": best.hit_ratio}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", help="directory of traces, one a volume")
    parser.add_argument("--sizes", default="1G,4G,16G", help="cache sizes, as for `kickcache simulate trace`")
    parser.add_argument("--shards", type=int, default=16, help="tasks; at most traces times sizes are of use")
    parser.add_argument("--scheduler", help="address of a Dask scheduler; without it, workers on this machine")
    parser.add_argument("--program", default="kickcache", help="the program on the workers")
    parser.add_argument("--out", default="sweep", help="directory of the tables, on storage that all workers share")
    parser.add_argument("--worth", type=float, default=0.01, help="hit ratio that the next size must add")
    return parser.parse_args()


def main():
    args = arguments()
    out = pathlib.Path(args.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    if any(out.glob("*.parquet")):
        sys.exit(f"{out} holds tables of an earlier sweep; name another --out, or remove them")
    traces = str(pathlib.Path(args.traces).resolve())
    with Client(args.scheduler) if args.scheduler else Client(threads_per_worker=1) as client:
        tasks = [client.submit(simulate, args.program, traces, args.sizes, shard, args.shards, str(out), pure=False)
                 for shard in range(args.shards)]
        for count, task in enumerate(as_completed(tasks), 1):
            task.result()
            print(f"\r{count} of {args.shards} shards", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    table = dask.dataframe.read_parquet(str(out))
    frame = table[table.policy == "kickcache-wide"].compute()
    found = pandas.DataFrame(recommend(frame, args.worth))
    print(found.to_string(index=False))
    print(f"\nin all: {found.cache_bytes.sum() / 2**30:.1f} GiB of cache for {len(found)} volumes; all rows are in {out}")


if __name__ == "__main__":
    main()
