package image

import (
	"context"
	"fmt"
	"os"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// FileKeychain finds the credentials of registries in a file of "docker login". It reads the file
// for each pull, so that new credentials need no restart. A pull by digest of a cached image sends
// no request.
func FileKeychain(file string) (authn.Keychain, error) {
	k := fileKeychain{file}
	if _, err := k.read(); err != nil {
		return nil, err
	}
	return k, nil
}

type fileKeychain struct{ file string }

// read never reveals the content of the file: its errors go to logs.
func (k fileKeychain) read() (*configfile.ConfigFile, error) {
	f, err := os.Open(k.file)
	if err != nil {
		return nil, fmt.Errorf("registry credentials: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	c, err := config.LoadFromReader(f)
	if err != nil {
		return nil,
			fmt.Errorf("registry credentials: %s is not a file that \"docker login\" writes: it must be JSON with \"auths\"",
				k.file)
	}
	return c, nil
}

// Resolve implements authn.Keychain.
func (k fileKeychain) Resolve(r authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), r)
}

// ResolveContext implements authn.ContextKeychain.
func (k fileKeychain) ResolveContext(_ context.Context, r authn.Resource) (authn.Authenticator, error) {
	c, err := k.read()
	if err != nil {
		return nil, err
	}
	for _, key := range []string{r.String(), r.RegistryStr()} {
		if key == name.DefaultRegistry {
			key = authn.DefaultAuthKey
		}
		a, err := c.GetAuthConfig(key)
		if err != nil {
			return nil, fmt.Errorf("registry credentials: %s has none for %s that can be read", k.file, key)
		}
		a.ServerAddress = ""
		if a != (types.AuthConfig{}) {
			return authn.FromConfig(authn.AuthConfig{Username: a.Username, Password: a.Password, Auth: a.Auth,
				IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}), nil
		}
	}
	return authn.Anonymous, nil
}
