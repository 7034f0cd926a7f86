import { defineConfig } from 'vite'

// Names without a hash: the files are committed, and the server sends an ETag. One script, so that
// nothing is loaded later; assets are never inlined, because the page's policy allows no data: address.
export default defineConfig({
  base: './',
  publicDir: 'public',
  build: {
    outDir: process.env.CANTINA_UI_OUT || 'dist',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        inlineDynamicImports: true,
        entryFileNames: 'app.js',
        assetFileNames: 'app[extname]',
      },
    },
  },
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'inline' },
})
