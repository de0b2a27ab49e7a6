#!/bin/sh
# Tells the DCGM exporter which job uses which GPU: a file for each GPU holds its jobs.
dir="@JOB_MAPPING_DIR@"
[ -n "$SLURM_JOB_GPUS" ] && [ -d "$dir" ] || exit 0
for gpu in $(echo "$SLURM_JOB_GPUS" | tr ',' ' '); do
    first=${gpu%-*} last=${gpu#*-}
    while [ "$first" -le "$last" ]; do
        grep -qx "$SLURM_JOB_ID" "$dir/$first" 2>/dev/null || echo "$SLURM_JOB_ID" >>"$dir/$first"
        first=$((first + 1))
    done
done
# Numbers about GPUs must never keep a job from running.
exit 0
