#!/bin/bash
#SBATCH --job-name=container
#SBATCH --container-image=./debian.tar
#SBATCH --container-mounts=/home/shared:/data

# All of this runs in the container.
grep PRETTY /etc/os-release
ls /data
