// Package container runs the tasks of a Slurm step in a container without any privilege: it unpacks an image archive or a squashfs
// file into a folder of the user's, makes a user and a mount namespace on it, and hands both to slurmstepd, whose tasks enter them.
//
// All of it runs as the job's user. Root's part is only the SPANK plugin (images/slurmd-container), which starts this program.
package container
