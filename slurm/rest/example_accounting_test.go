package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

// Read who may use an account, here from a server that stands in for slurmrestd.
func ExampleClient_Associations() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"associations":[{"id":5,"cluster":"c1","account":"phys","user":"alice","lineage":"/phys/0-alice/",
			"max":{"jobs":{"active":{"set":true,"infinite":false,"number":4}},"tres":{"total":[{"type":"cpu","name":"","count":64}]}}}],"errors":[]}`)
	}))
	defer server.Close()
	client, err := rest.New(rest.Config{URL: server.URL, Tokens: rest.StaticToken("secret")})
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := client.Associations(context.Background(), slurm.AssociationFilter{Accounts: []string{"phys"}})
	for _, a := range list {
		fmt.Println(a.User, "may run", a.MaxJobs, "jobs within", a.GrpTRES)
	}
	fmt.Println(err)
	// Output:
	// alice may run 4 jobs within cpu=64
	// <nil>
}
