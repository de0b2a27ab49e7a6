// Package e2e tells whole stories on a running box: real Kubernetes nodes, a real
// Slurm cluster made by the operator, pods placed by the bridge.
//
// The stories skip unless SLINKY_TEST_BOX names a box that is up, as in
//
//	bin/slinky up --name test
//	SLINKY_TEST_BOX=test go test -count=1 -v ./test/e2e
//
// "make e2e" does both and removes the box again.
package e2e
