// Package feature reads, prints and evaluates the expressions by which a job asks
// for nodes by their features (Slurm calls them constraints):
//
//	intel&(gpu|fpga)      every node is an intel, and has a gpu or an fpga
//	[rack1|rack2]&gpu     nodes with a gpu, all of rack1 or all of rack2
//	gpu*4                 four nodes with a gpu
//	[rack1*2&(rack2|rack3)*1]   two nodes of rack1, and one of rack2 or rack3
//
// A comma is another way to write &. Neither of & and | comes first: Slurm goes
// from left to right, so that a|b&c is (a|b)&c.
//
// Parse refuses what Slurm refuses, and a few forms that Slurm takes yet answers
// as if something else had been written: a bracket beside |, anything beside
// counts in a bracket, an operator at the end, text after a count.
package feature
