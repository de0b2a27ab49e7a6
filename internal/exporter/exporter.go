package exporter

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/cache"
)

// View is the live view of Slurm that is shown.
type View interface {
	Jobs() []slurm.Job
	Nodes() []slurm.Node
	Synced() bool
	Age() time.Duration
	Subscribe(handle func(cache.Event)) (stop func())
}

// Slurm is what is read beside the view, every Config.Slow.
type Slurm interface {
	slurm.Statistics
	slurm.Licenses
	Partitions(ctx context.Context) ([]slurm.Partition, error)
	Reservations(ctx context.Context) ([]slurm.Reservation, error)
	Ping(ctx context.Context) ([]slurm.Ping, error)
	slurm.Shares
	Associations(ctx context.Context, f slurm.AssociationFilter) ([]slurm.Association, error)
}

// Config is what an Exporter needs.
type Config struct {
	View    View
	Slurm   Slurm
	Options Options
	// Every is how often changes are counted, at most; 5 s by default.
	Every time.Duration
	// Slow is how often statistics, partitions, licences and reservations are read; 30 s by default.
	Slow time.Duration
	// Accounting is how often shares and limits are read, 0 for never.
	Accounting time.Duration
	// MaxAge is how old the view may become until its numbers are no longer shown; 2 min by default.
	MaxAge time.Duration
	// Token is what calls to Slurm carry, to tell when it ends; nil if that is nobody's concern.
	Token func(ctx context.Context) (string, error)
	// Keep keeps what was counted for Values.
	Keep bool
	Now  func() time.Time
	Log  logr.Logger
}

// Exporter counts and serves. Make it with New.
type Exporter struct {
	Config
	registry *prometheus.Registry
	wait     *prometheus.HistogramVec
	run      *prometheus.HistogramVec
	failures *prometheus.CounterVec
	took     *prometheus.GaugeVec
	good     *prometheus.GaugeVec
	counting prometheus.Gauge
	expires  *prometheus.GaugeVec
	began    time.Time

	dirty atomic.Bool
	page  atomic.Pointer[written]

	mu         sync.Mutex
	slow       Facts           // what is read every Config.Slow and Config.Accounting
	partitions map[string]bool // the labels of histograms, which stay
}

// written is a page as it is served, and when it was made.
type written struct {
	text     []byte
	families map[string]*dto.MetricFamily
	at       time.Time
}

// New returns an exporter. Run keeps it current; it is a http.Handler.
func New(c Config) *Exporter {
	c.Every, c.Slow, c.MaxAge = or(c.Every, 5*time.Second), or(c.Slow, 30*time.Second), or(c.MaxAge, 2*time.Minute)
	e := &Exporter{Config: c, registry: prometheus.NewRegistry(), began: c.Now(), partitions: map[string]bool{}}
	buckets := []float64{1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 72 * 3600, 168 * 3600}
	e.wait = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "slurm_job_wait_seconds", Help: "Time from when a job could start to its start, of jobs that started since the exporter did.", Buckets: buckets,
	}, []string{"partition"})
	e.run = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "slurm_job_run_seconds", Help: "Time from a job's start to its end, of jobs that ended since the exporter started.", Buckets: buckets,
	}, []string{"partition"})
	e.failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slurm_exporter_failures_total", Help: "Failed calls to Slurm, by what was read.",
	}, []string{"what"})
	// A counter that comes with the first failure would hide that one from whoever looks for an increase.
	for _, what := range []string{"partitions", "reservations", "licenses", "controllers", "statistics", "page"} {
		e.failures.WithLabelValues(what)
	}
	e.took = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slurm_exporter_read_seconds", Help: "How long the last reading took, by what was read.",
	}, []string{"what"})
	e.good = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slurm_exporter_read_success_timestamp_seconds", Help: "When something was last read without a failure, by what was read.",
	}, []string{"what"})
	e.counting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "slurm_exporter_page_seconds", Help: "How long it took to count and to write the page that is served.",
	})
	e.expires = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slurm_exporter_token_expiry_timestamp_seconds", Help: "When the token ends that calls to Slurm carry.",
	}, nil)
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "slurm_up", Help: "1 while Slurm answers: the numbers are no older than slurm_exporter_data_age_seconds says.",
	}, func() float64 { return flag(e.fresh()) })
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "slurm_exporter_data_age_seconds", Help: "How old what is known of Slurm is; NaN before anything is known.",
	}, e.age)
	e.registry.MustRegister(e.wait, e.run, e.failures, e.took, e.good, e.counting, e.expires, up, age)
	e.dirty.Store(true)
	return e
}

func or(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

func (e *Exporter) age() float64 {
	if age := e.View.Age(); age >= 0 {
		return age.Seconds()
	}
	return math.NaN()
}

// fresh tells whether what is known may be shown as what is.
func (e *Exporter) fresh() bool {
	age := e.View.Age()
	return e.View.Synced() && age >= 0 && age <= e.MaxAge
}

// Run keeps the page current until the context ends.
func (e *Exporter) Run(ctx context.Context) {
	stop := e.View.Subscribe(e.changed)
	defer stop()
	var loops sync.WaitGroup
	loops.Go(func() { e.each(ctx, e.Slow, e.read) })
	if e.Accounting > 0 {
		loops.Go(func() { e.each(ctx, e.Accounting, e.readAccounting) })
	}
	loops.Go(func() { e.each(ctx, e.Every, func(context.Context) { e.count() }) })
	loops.Wait()
}

// spared is how many times as long as its work a loop rests: on a cluster of 100,000 jobs counting takes more
// than a second, and is done less often.
const spared = 10

func (e *Exporter) each(ctx context.Context, period time.Duration, do func(context.Context)) {
	for ctx.Err() == nil {
		began := time.Now()
		do(ctx)
		rest := time.NewTimer(max(period, spared*time.Since(began)))
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
		}
	}
}

// changed notes that something has changed, and measures jobs as they start and end.
func (e *Exporter) changed(event cache.Event) {
	e.dirty.Store(true)
	if event.Job == nil || event.Job.New == nil {
		return
	}
	was, now := event.Job.Old, event.Job.New
	// What the first reading brings has happened before; only what happens from then on counts. Slurm's times are whole seconds.
	began := e.began.Truncate(time.Second)
	if started(now) && (was == nil || !started(was)) && !now.StartTime.Before(began) {
		since := now.EligibleTime
		if since.IsZero() {
			since = now.SubmitTime
		}
		e.wait.WithLabelValues(e.partition(now.Partition)).Observe(max(now.StartTime.Sub(since), 0).Seconds())
	}
	if started(now) && now.States.JobEnded() && (was == nil || !was.States.JobEnded()) && !now.EndTime.Before(began) {
		e.run.WithLabelValues(e.partition(now.Partition)).Observe(max(now.EndTime.Sub(now.StartTime), 0).Seconds())
	}
}

// started tells whether a job has had nodes: it runs, or ran before it ended, perhaps all of it between two looks.
// One that waits may have a start in the future.
func started(j *slurm.Job) bool {
	if j.StartTime.IsZero() || j.Nodes == "" {
		return false
	}
	return j.States.HasAny(slurm.JobRunning, slurm.JobSuspended) || j.States.JobEnded()
}

// count writes the page anew if something has changed.
func (e *Exporter) count() {
	if !e.View.Synced() || !e.dirty.Swap(false) {
		return
	}
	e.mu.Lock()
	f := e.slow
	e.mu.Unlock()
	f.Now, f.Jobs, f.Nodes = e.Now(), e.View.Jobs(), e.View.Nodes()
	p := fill(f, e.Options)
	w := &written{at: f.Now}
	if e.Keep {
		w.families = p.families
	}
	var out bytes.Buffer
	if err := p.write(&out); err != nil {
		e.failures.WithLabelValues("page").Inc()
		e.Log.Error(err, "Can't write the metrics")
		return
	}
	w.text = out.Bytes()
	e.page.Store(w)
	e.counting.Set(e.Now().Sub(f.Now).Seconds())
}

// partition is a partition's name as a label of what is kept for ever.
func (e *Exporter) partition(name string) string {
	name = text(name, maxLabel)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.partitions[name] && len(e.partitions) >= e.Options.limit() {
		return other
	}
	e.partitions[name] = true
	return name
}

func fill(f Facts, o Options) *page {
	c, p := take(f, o), newPage()
	p.published(c, o)
	p.native(c, o)
	p.more(c, o)
	if o.Vpenso {
		p.vpenso(c, o)
	}
	return p
}

// Page is the metrics of some facts in Prometheus' text format: same facts, same bytes.
func Page(f Facts, o Options) ([]byte, error) {
	var out bytes.Buffer
	if err := fill(f, o).write(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// ServeHTTP answers a scrape. While Slurm is away longer than MaxAge only slurm_up and what else is
// the exporter's own is shown: old numbers must not pass for present ones.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	families, err := e.registry.Gather()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return // the scraper has gone
		}
	}
	if page := e.page.Load(); page != nil && e.fresh() {
		_, _ = w.Write(page.text) // if that fails the scraper has gone
	}
}

// Ready is an error until the first page is there.
func (e *Exporter) Ready(*http.Request) error {
	if e.page.Load() == nil {
		return errors.New("Slurm has not been read yet")
	}
	return nil
}
