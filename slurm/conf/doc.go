// Package conf writes Slurm's configuration files: slurm.conf, slurmdbd.conf,
// cgroup.conf, gres.conf and topology.yaml. It is the only way by which text from
// outside reaches them: a value can't add a line, a key or a comment, and a file
// that has one that could is refused as a whole, with all that is wrong with it.
package conf
