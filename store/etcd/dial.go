package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cantina/store"
)

// ClusterConfig has the addresses and settings of an operator's etcd. Zero fields take the default
// in brackets.
type ClusterConfig struct {
	// Endpoints are its members: "https://host:2379".
	Endpoints []string
	// TLS is nil for plain connections.
	TLS *tls.Config
	// User and Password are those of etcd's own users, when it has any.
	User, Password string
	// Limits of one transaction [128 writes, 1.5 MiB: the defaults of etcd].
	Limits store.Limits
	// Upkeep compacts the whole cluster, including data of other users; unlike with an embedded
	// member its CompactEvery is negative (never) by default.
	Upkeep Upkeep
	// Log receives messages for operators [discarded].
	Log *slog.Logger
}

// Cluster is a connection to an operator's etcd.
type Cluster struct {
	cfg     ClusterConfig
	backend *Backend
}

// Dial prepares connections; it does not wait for any, so that a server can start
// before its etcd does. Close ends them.
func Dial(c ClusterConfig) (*Cluster, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("dial etcd: no endpoints")
	}
	c.Limits.Ops = cmp.Or(c.Limits.Ops, plainLimits.Ops)
	c.Limits.Bytes = cmp.Or(c.Limits.Bytes, plainLimits.Bytes)
	c.Upkeep.CompactEvery = cmp.Or(c.Upkeep.CompactEvery, -1)
	c.Upkeep = c.Upkeep.withDefaults()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, TLS: c.TLS, Username: c.User, Password: c.Password,
		DialTimeout: 5 * time.Second, DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		MaxCallSendMsgSize: c.Limits.Bytes + 1<<20, Logger: newLogger(c.Log, newFuse()),
	})
	if err != nil {
		return nil, fmt.Errorf("dial etcd %v: %w", c.Endpoints, err)
	}
	return &Cluster{cfg: c, backend: &Backend{client: client, limits: c.Limits}}, nil
}

// Backend returns the store's backend.
func (c *Cluster) Backend() *Backend { return c.backend }

// Run compacts and defragments as configured, until ctx is done; it returns ctx's
// error.
func (c *Cluster) Run(ctx context.Context) error {
	return c.cfg.Upkeep.run(ctx, c.backend, c.cfg.Log)
}

// Close ends the connections.
func (c *Cluster) Close() error { return c.backend.client.Close() }
