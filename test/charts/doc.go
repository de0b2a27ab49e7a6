// Package charts renders the Helm charts as their users do, and looks at what comes out.
//
// It needs helm, which the box builds:
//
//	SLINKY_TEST_HELM=1 SLINKY_HELM=$(bin/slinky tools helm) go test ./test/charts
//
// With -update it writes the golden files anew.
package charts
