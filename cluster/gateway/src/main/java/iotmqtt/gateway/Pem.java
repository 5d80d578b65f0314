package iotmqtt.gateway;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.cache.configuration.Factory;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * TLS of a server from PEM files: its certificate chain, its key (PKCS 8) and the authorities whose peers are let in.
 *
 * <p>Ignite takes it for discovery, communication and thin clients, the gateway for brokers. Key stores of Java would
 * want a password beside the key, and nobody who makes certificates makes them.
 */
public final class Pem implements Factory<SSLContext> {
    private static final long serialVersionUID = 1L;
    private static final Pattern KEY =
            Pattern.compile("-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)-----END PRIVATE KEY-----");
    private static final List<String> ALGORITHMS = List.of("EC", "RSA", "Ed25519");
    private static final char[] NO_PASSWORD = {};

    private final String certificate;
    private final String key;
    private final String authorities;

    private Pem(String certificate, String key, String authorities) {
        this.certificate = certificate;
        this.key = key;
        this.authorities = authorities;
    }

    /** What is configured; null without a certificate: everything is in plain text. */
    public static Pem of(String certificate, String key, String authorities) {
        if (certificate.isEmpty() && key.isEmpty() && authorities.isEmpty()) {
            return null;
        }
        if (certificate.isEmpty() || key.isEmpty() || authorities.isEmpty()) {
            throw new IllegalArgumentException("TLS needs iot.tls.cert, iot.tls.key and iot.tls.ca, all three");
        }
        Pem made = new Pem(certificate, key, authorities);
        made.create();
        return made;
    }

    /** The files as they are now. */
    @Override
    public SSLContext create() {
        try {
            KeyStore own = empty();
            own.setKeyEntry("own", privateKey(), NO_PASSWORD, certificates(certificate).toArray(new Certificate[0]));
            KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            keys.init(own, NO_PASSWORD);
            KeyStore trusted = empty();
            int number = 0;
            for (Certificate authority : certificates(authorities)) {
                trusted.setCertificateEntry("ca" + number++, authority);
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(trusted);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
            return context;
        } catch (IOException | GeneralSecurityException e) {
            throw new IllegalArgumentException(
                    "cannot use " + certificate + ", " + key + " and " + authorities + " for TLS: " + e.getMessage(), e);
        }
    }

    private static KeyStore empty() throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, NO_PASSWORD);
        return store;
    }

    private static Collection<? extends Certificate> certificates(String file)
            throws IOException, GeneralSecurityException {
        try (InputStream in = Files.newInputStream(Path.of(file))) {
            Collection<? extends Certificate> found =
                    CertificateFactory.getInstance("X.509").generateCertificates(in);
            if (found.isEmpty()) {
                throw new GeneralSecurityException("there is no certificate in " + file);
            }
            return found;
        }
    }

    private PrivateKey privateKey() throws IOException, GeneralSecurityException {
        Matcher found = KEY.matcher(Files.readString(Path.of(key), StandardCharsets.US_ASCII));
        if (!found.find()) {
            throw new GeneralSecurityException(key + " has no BEGIN PRIVATE KEY (PKCS 8, not encrypted)");
        }
        PKCS8EncodedKeySpec spec = new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(found.group(1)));
        for (String algorithm : ALGORITHMS) {
            try {
                return KeyFactory.getInstance(algorithm).generatePrivate(spec);
            } catch (InvalidKeySpecException e) {
                // It is of another kind.
            }
        }
        throw new GeneralSecurityException(key + " has a key of another kind than " + ALGORITHMS);
    }
}
