// Package measure is the yardstick of the bridge's benchmarks: it creates pods and
// takes the time until a scheduler has bound them, submits bare jobs to Slurm, and
// tells what that costs in processor time, requests and bytes. It knows nothing of
// any scheduler but its name, and nothing of Slurm but slurmrestd's URL.
//
// Times are by one clock, this process's: from just before a call is sent to the
// arrival of the watch event that shows its effect.
package measure
