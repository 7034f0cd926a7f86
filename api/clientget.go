package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Get reads a path of a listener with the credentials of the client: health, metrics, profiles. It returns at most
// most bytes, also of an answer that is an error.
func (c *Client) Get(ctx context.Context, address, path string, most int64) ([]byte, error) {
	s := c.reach(address)
	defer s.close()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.health, healthPath)+path, nil)
	if err != nil {
		return nil, err
	}
	a, err := s.clients[0].Do(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(io.LimitReader(a.Body, most))
	if a.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("HTTP status %s", a.Status), err)
	}
	return body, err
}

// healthPath is where a client looks whether a server is alive.
const healthPath = "/health"
