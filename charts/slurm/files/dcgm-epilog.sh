#!/bin/sh
# Takes the job out of the files in which the prolog has noted it.
dir="@JOB_MAPPING_DIR@"
[ -d "$dir" ] || exit 0
for file in "$dir"/*; do
    [ -f "$file" ] && grep -qx "$SLURM_JOB_ID" "$file" || continue
    sed -i "/^${SLURM_JOB_ID}\$/d" "$file"
    [ -s "$file" ] || rm -f "$file"
done
exit 0
