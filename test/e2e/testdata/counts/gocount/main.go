// Command gocount prints how many CPUs a Go program finds.
package main

import (
	"fmt"
	"runtime"
)

func main() {
	fmt.Println("runtime.NumCPU", runtime.NumCPU())
	fmt.Println("GOMAXPROCS", runtime.GOMAXPROCS(0))
}
