package api_test

import (
	"net/http"
	"testing"
)

func TestRebalance(t *testing.T) {
	w := newWorld(t)
	w.exchanges(t, []exchange{
		{"a plan", http.MethodGet, "/v1/rebalance", "", 200, `"20 of [] on [], apply false"`},
		{"a plan of some", http.MethodGet, "/v1/rebalance?service=d/web&cell=c1&cell=c2&max_moves=7", "", 200,
			`"7 of [d/web] on [c1 c2], apply false"`},
		{"a request that reads does not move", http.MethodGet, "/v1/rebalance?apply=true", "", 200, "apply false"},
		{"moves", http.MethodPost, "/v1/rebalance", `{"apply": true, "max_moves": 7}`, 200, `"7 of [] on [], apply true"`},
		{"more than one call begins", http.MethodPost, "/v1/rebalance", `{"apply": true, "max_moves": 1000}`, 200,
			`"25 of [] on [], apply true"`},
		{"only counted", http.MethodPost, "/v1/rebalance", `{"apply": true, "count_only": true}`, 200, "apply true"},
		{"too many", http.MethodGet, "/v1/rebalance?max_moves=1001", "", 422, "must be from 1 to 1000"},
		{"fewer than none", http.MethodGet, "/v1/rebalance?max_moves=-1", "", 422, "must be from 1 to 1000"},
		{"no domain", http.MethodGet, "/v1/rebalance?service=web", "", 422, "is not DOMAIN/NAME"},
		{"no name", http.MethodGet, "/v1/rebalance?service=d/", "", 422, "is not DOMAIN/NAME"},
	})
}
