package rest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

// TestKinds holds the meaning of status and number, also as other Slurm versions pair them:
// 25.11 answers 500 to each refusal, 26.05 answers 422.
func TestKinds(t *testing.T) {
	node := call{name: "read node", single: true}
	line := call{name: "create node", nodeLine: true}
	cases := []struct {
		op           call
		status, code int
		want         error
	}{
		{call{}, 200, 0, nil},
		{call{}, 401, 0, slurm.ErrAuth},
		{call{}, 403, 1, slurm.ErrAuth},
		{call{}, 511, 1007, slurm.ErrAuth},
		{call{}, 500, 1007, slurm.ErrAuth},
		{call{}, 422, 2002, slurm.ErrAuth},
		{call{}, 500, 2010, slurm.ErrAuth},
		{node, 404, 0, slurm.ErrNotFound},
		{node, 404, 2017, slurm.ErrNotFound},
		{node, 500, 2018, slurm.ErrNotFound},
		{node, 422, 2053, slurm.ErrNotFound},
		{node, 422, 9000, slurm.ErrNotFound},
		{call{}, 422, 9000, slurm.ErrInvalid},
		{call{}, 422, 2013, slurm.ErrBusy},
		{call{}, 500, 2015, slurm.ErrBusy},
		{call{}, 422, 2016, slurm.ErrBusy},
		{call{}, 422, 2125, slurm.ErrBusy},
		{call{}, 400, 0, slurm.ErrInvalid},
		{call{}, 422, 0, slurm.ErrInvalid},
		{call{}, 422, 2000, slurm.ErrInvalid},
		{call{}, 500, 2014, slurm.ErrInvalid},
		{call{}, 500, 2189, slurm.ErrInvalid},
		{call{}, 500, 22, slurm.ErrInvalid},
		{line, 500, -1, slurm.ErrInvalid},
		{call{}, 500, -1, slurm.ErrUnavailable},
		{call{}, 500, 0, slurm.ErrUnavailable},
		{call{}, 502, 0, slurm.ErrUnavailable},
		{call{}, 503, 0, slurm.ErrUnavailable},
		{call{}, 504, 5004, slurm.ErrUnavailable},
		{call{}, 500, 1800, slurm.ErrUnavailable},
		{call{}, 500, 7000, slurm.ErrUnavailable},
	}
	for _, tc := range cases {
		t.Run(fmt.Sprintf("%s status %d number %d", tc.op.name, tc.status, tc.code), func(t *testing.T) {
			var rep dialect.Reply
			if tc.status != 200 {
				rep.Errors = []dialect.Problem{{Code: tc.code, Text: "why"}}
			}
			e := failure(tc.op, tc.status, rep)
			if tc.want == nil {
				if e != nil {
					t.Errorf("%v, want success", e)
				}
				return
			}
			if e == nil || !errors.Is(e, tc.want) || e.Code != tc.code || e.Text != "why" || e.HTTPStatus != tc.status {
				t.Errorf("%#v, want %v", e, tc.want)
			}
		})
	}
}
