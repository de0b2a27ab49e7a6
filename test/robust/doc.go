// Package robust runs many short workloads through a real API server, a real Slurm and
// the bridge's programs as processes, beside batch jobs of Slurm's own users on the same
// nodes, and kills and freezes each process in turn. An observer looks at both sides
// all the time, and a judge, which is a pure function of what was seen, says what may not be: a pod
// without its job, a job without its pod, a core given twice, half a gang, work lost or
// done twice. It has tests only.
package robust
