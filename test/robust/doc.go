// Package robust runs many short workloads through a real API server, a real Slurm
// and the bridge's programs as processes, kills and freezes each of them in turn,
// and checks that nothing was lost, run twice or given twice. It has tests only.
package robust
