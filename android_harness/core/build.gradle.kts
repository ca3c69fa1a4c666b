import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    alias(libs.plugins.kotlin.jvm)
}

val javaOfCore: String =
    libs.versions.java.of.core
        .get()

kotlin {
    explicitApi()
    jvmToolchain(17)
    compilerOptions {
        jvmTarget = JvmTarget.fromTarget(javaOfCore)
        allWarningsAsErrors = true
    }
    // Classes that Java 8 lacks are unknown to the compiler. Tests run on a computer and may use them.
    target.compilations.named("main") {
        compileTaskProvider.configure {
            compilerOptions.freeCompilerArgs.add("-Xjdk-release=$javaOfCore")
        }
    }
}

java {
    sourceCompatibility = JavaVersion.toVersion(javaOfCore)
    targetCompatibility = JavaVersion.toVersion(javaOfCore)
}

dependencies {
    // Without what they name in turn: annotations for compilers, and an older JUnit than the one below.
    implementation(libs.gson) { isTransitive = false }
    testImplementation(libs.test.kotlin)
    testImplementation(libs.test.kotlin.junit5) { isTransitive = false }
    testImplementation(libs.test.junit)
}

tasks.test {
    useJUnitPlatform()
    systemProperty("phoneproof.golden", rootDir.resolve("../protocol/golden").path)
}
