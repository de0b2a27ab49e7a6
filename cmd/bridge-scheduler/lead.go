package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/connect"
	"github.com/slinky-hpc/slinky/internal/bridge/submit"
)

// tellWhenLeading closes lead when the scheduler begins to schedule. That is when
// it has the lease, or at once where there is no election: before, it asks for
// nothing to schedule.
func tellWhenLeading(s *scheduler.Scheduler, lead chan<- struct{}) {
	next := s.NextEntity
	var once sync.Once
	s.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		once.Do(func() { close(lead) })
		return next(logger)
	}
}

// plugin returns what makes the plugin once the flags are known, with the
// submitter beside it, which does nothing until lead is closed.
func (f *flags) plugin(getenv func(string) string, lead <-chan struct{}) frameworkruntime.PluginFactory {
	return func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		c, err := config.Read(os.DirFS("/"), strings.TrimPrefix(f.config, "/"))
		if err != nil {
			return nil, err
		}
		namespace := f.namespace
		if c.PolicyConfigMap != "" {
			if namespace, err = connect.Namespace(namespace); err != nil {
				return nil, fmt.Errorf("--bridge-namespace: %w", err)
			}
		}
		plugin, err := submit.Start(ctx, h, submit.Options{
			Config: c, Credentials: connect.CredentialsFrom(f.keyFile, f.user, getenv), Workers: f.workers, Namespace: namespace, Lead: lead, Register: f.register, GiveBack: f.giveBack,
		})
		if err != nil {
			return nil, fmt.Errorf("start the bridge: %w", err)
		}
		return plugin, nil
	}
}
