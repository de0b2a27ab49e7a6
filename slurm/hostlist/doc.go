// Package hostlist reads and writes Slurm's short form of node names:
// "n[01-03,7],gpu[1-2]-[1-4],login" and the like.
//
// Expand reads what Slurm reads, and gives names in Slurm's order. Join and
// Compress write what Slurm writes: only the number at a name's end goes into a
// bracket, and a range keeps the width that leading zeros give its first number.
//
// Slurm lets some slips pass that no node is named by, and guesses: a bracket
// within a bracket, a sign or a blank before a number, a range without an end, a
// closing bracket without an opening one, numbers of more than 64 bits. Expand
// refuses these. Functions such as "feature{gpu}" are refused too: only
// slurmctld, which knows the nodes, can answer them.
package hostlist
