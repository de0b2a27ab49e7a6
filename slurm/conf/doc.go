// Package conf writes Slurm's configuration files. It is the only way by which
// text from outside reaches them: a value can't add a line, a key or a comment.
package conf
