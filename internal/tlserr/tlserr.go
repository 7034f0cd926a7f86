// Package tlserr finds the remedy for a connection that fails because of TLS: the errors of the libraries name
// the symptom only.
package tlserr

import (
	"crypto/x509"
	"errors"
	"strings"
)

// refusals are the alerts with which the other side refuses a certificate.
var refusals = []string{"bad certificate", "unknown certificate", "certificate required", "expired certificate",
	"unsupported certificate", "revoked certificate"}

// Remedy is what to do about an error of a connection, with or without TLS on this side; "" = TLS is not the
// cause.
func Remedy(err error, used bool) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	text := err.Error()
	switch {
	case !used && strings.Contains(text, "400 Bad Request"):
		return "the server uses TLS: give --tls-cert, --tls-key and --tls-ca"
	case !used:
		return ""
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return "the server does not use TLS: leave out --tls-cert, --tls-key and --tls-ca"
	case errors.As(err, &authority):
		return "the server's certificate is not signed by the CA of --tls-ca"
	case errors.As(err, &name):
		return "the server's certificate does not name this address: use a name that it has, or add the address to its " +
			"subjectAltName"
	case errors.As(err, &invalid):
		return "the server's certificate must be valid today and allow use as a server (extendedKeyUsage serverAuth)"
	}
	for _, r := range refusals {
		if strings.Contains(text, "tls: "+r) {
			return "the server refuses this certificate: it must be signed by the CA of the server's --tls-ca, be valid " +
				"today and allow use as a client (extendedKeyUsage clientAuth)"
		}
	}
	return ""
}

// Explained is err with its remedy, if there is one.
func Explained(err error, used bool) error {
	if err == nil {
		return nil
	}
	if r := Remedy(err, used); r != "" {
		return &explained{err, r}
	}
	return err
}

type explained struct {
	err    error
	remedy string
}

func (e *explained) Error() string { return e.err.Error() + "; " + e.remedy }
func (e *explained) Unwrap() error { return e.err }
