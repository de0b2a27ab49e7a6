#!/bin/bash
# Counts the primes below 2,000,000 on two nodes: each node tests every second
# odd number, and this script adds the two counts up.
# Run it with: slinky slurm sbatch < examples/primes/job.sh
#SBATCH --job-name=primes
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --output=primes-%j.out

pieces=$(srun awk '
BEGIN {
    part = ENVIRON["SLURM_PROCID"]; parts = ENVIRON["SLURM_NTASKS"]
    for (n = 3 + 2 * part; n < 2000000; n += 2 * parts) {
        prime = 1
        for (d = 3; d * d <= n; d += 2) if (n % d == 0) { prime = 0; break }
        count += prime
    }
    if (part == 0) count++ # the number 2
    print ENVIRON["SLURMD_NODENAME"], count
}') || exit
echo "$pieces"
echo "$pieces" | awk '{ sum += $2 } END { print "primes below 2000000:", sum }'
