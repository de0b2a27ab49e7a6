package explain

import (
	"errors"
	"fmt"

	"github.com/slinky-hpc/slinky/slurm"
)

// Numbers from slurm_errno.h whose own sentences don't say what to do.
const (
	accessDenied   = 2002
	invalidUser    = 2010
	invalidAccount = 2045
)

// Refused is one sentence on a request that Slurm didn't take.
func Refused(err error) string {
	var e *slurm.Error
	if !errors.As(err, &e) || e.Text == "" {
		return "Slurm refuses the job: " + err.Error()
	}
	text := "Slurm refuses the job: " + e.Text
	if e.Code != 0 {
		text += fmt.Sprintf(" (error %d)", e.Code)
	}
	if e.Code == invalidAccount {
		text += ". Where Slurm enforces associations, the job's user needs an account, and the one that is asked for must be his: sacctmgr add user NAME account=ACCOUNT"
	}
	return text
}

// Unavailable is one sentence on a call that got no answer, or was refused for what
// the bridge itself is.
func Unavailable(err error) string {
	var e *slurm.Error
	switch {
	case !errors.Is(err, slurm.ErrAuth):
		return "Slurm can't be asked now: " + err.Error()
	case errors.As(err, &e) && (e.Code == accessDenied || e.Code == invalidUser):
		return "Slurm doesn't let the bridge do this; its token must be of Slurm's own user: " + err.Error()
	}
	return "Slurm doesn't take the bridge's token, which may have expired: " + err.Error()
}
