// Package report collects what somebody who looks into a fault needs of a node with
// the CPU driver, in the published layout and more. Nothing in it is a secret.
package report
